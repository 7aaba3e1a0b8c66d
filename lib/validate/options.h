// The value of UROCE_VALIDATE.
#pragma once

#include <set>
#include <string>

#include "validate/misuse.h"

namespace uroce::validate {

struct Options {
  bool on = false;
  bool notes = false;
  std::set<Misuse> allowed{};  ///< not told
  std::string file{};          ///< empty: stderr
  std::string unknown{};       ///< the first word that is none
};

/// "1", and words between commas: "notes"; "-WORD" for a misuse that is not told; "file:PATH", which is the last one.
/// Empty or "0": off.
Options parse_options(const std::string& value);

}  // namespace uroce::validate
