// Turns the daemon's values into words for people.
#pragma once

#include <string>
#include <string_view>

namespace uroce::cli {

/// A value of an ObjectRow by its name: addresses in their usual form (empty for none), access flags by their names. A
/// value that cannot be read stays as it is.
std::string readable(std::string_view name, std::string value);

}  // namespace uroce::cli
