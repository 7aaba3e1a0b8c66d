// A tree of files like the kernel's in /sys/class and /dev, for the daemon's devices.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "verbs_library.h"

namespace uroce::run {

/// Writes /class/infiniband, /class/infiniband_verbs and /dev/infiniband below `root`, or brings them up to date. False
/// when a file cannot be written.
bool write_tree(const std::filesystem::path& root, const std::vector<DeviceView>& devices);

/// The kernel's interface with the device's address, as an af_packet or tap port has one; empty when there is none.
std::string interface_of(uint64_t guid);

}  // namespace uroce::run
