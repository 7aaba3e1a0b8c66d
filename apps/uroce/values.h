// What the daemon writes for programs, in people's words.
#pragma once

#include <string>
#include <string_view>

namespace uroce::cli {

/// A value of an ObjectRow by its name: addresses in their usual form (empty for none), access flags by their names.
/// What cannot be read is left as it is.
std::string readable(std::string_view name, std::string value);

}  // namespace uroce::cli
