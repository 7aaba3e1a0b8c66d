// Errors of control calls. The data path returns errno values and reports through completions instead.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace uroce {

/// Why a call failed: an errno value for programs, a sentence for people. The sentence names the object, the value, the
/// limit and what to do.
struct Error {
  int code = 0;      ///< an errno value, never 0
  std::string text;  ///< one sentence, no newline
};

/// A value, or an Error.
template <class T>
using Result = std::expected<T, Error>;

/// The error side of any Result. `code` is an errno value, not 0.
inline std::unexpected<Error> fail(int code, std::string text) {
  return std::unexpected<Error>(Error{code, std::move(text)});
}

}  // namespace uroce
