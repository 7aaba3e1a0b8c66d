// Errors of calls that set things up. The data path reports through completions instead.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace uroce {

/// Why a call failed: an errno value for programs, a sentence for people.
/// The sentence names the object, the value, the limit and the way out.
struct Error {
  int code = 0;      ///< an errno value, never 0
  std::string text;  ///< one sentence, no newline
};

template <class T>
using Result = std::expected<T, Error>;

/// Makes the error side of any Result.
inline std::unexpected<Error> fail(int code, std::string text) {
  return std::unexpected<Error>(Error{code, std::move(text)});
}

}  // namespace uroce
