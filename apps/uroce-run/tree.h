// A tree of files like the kernel's below /sys/class, for the daemon's devices.
#pragma once

#include <filesystem>
#include <vector>

#include "verbs_library.h"

namespace uroce::run {

/// Writes /class/infiniband and /class/infiniband_verbs below `root`. False when a file cannot be written.
bool write_tree(const std::filesystem::path& root, const std::vector<DeviceView>& devices);

}  // namespace uroce::run
