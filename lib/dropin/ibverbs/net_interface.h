// The kernel's interface that stands beside a device.
#pragma once

#include <cstdint>

#include <uroce/verbs/device.h>

namespace uroce::dropin {

/// The number in this network namespace of the interface whose addresses are the device's, or that has its Ethernet
/// address; 0 where there is none. uroce-run writes the same interface's name to gid_attrs/ndevs.
uint32_t interface_index(const DeviceInfo& device);

}  // namespace uroce::dropin
