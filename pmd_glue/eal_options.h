// Reads EAL's options as EAL does: short and long, abbreviated, with their values.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

namespace uroce::glue {

/// One option as EAL reads it.
struct EalOption {
  std::string name;  ///< "vdev", "l"
  std::string value;
  std::size_t index = 0;        ///< where in the arguments it stands
  std::size_t value_index = 0;  ///< where in the arguments the value stands
  std::size_t value_offset = 0;
};

/// Errors: EINVAL naming the argument.
Result<std::vector<EalOption>> read_eal_options(const std::vector<std::string>& args);
/// Whether one of the options is there.
bool has_option(const std::vector<EalOption>& options, std::initializer_list<std::string_view> names);

}  // namespace uroce::glue
