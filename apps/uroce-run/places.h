// Paths of uroce's parts, in a build tree and installed.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace uroce::run {

struct Places {
  std::vector<std::filesystem::path> libraries;  ///< folders for the loader; libibverbs.so.1 is in the first
  std::filesystem::path redirector;
  std::filesystem::path daemon;  ///< empty when not found
};

/// Looks beside this program. nullopt when the drop-in library or the redirector is missing.
std::optional<Places> find_places();

}  // namespace uroce::run
