// Whether this kernel passes super-frames through packet sockets, both ways: VIRTIO_NET_HDR_GSO_UDP_L4, since Linux
// 6.2, or earlier where a distribution has added it.
#pragma once

#include <optional>
#include <string_view>

namespace uroce::glue::kif {

/// Asks the kernel by two small frames to the loopback interface, which drops them. Needs CAP_NET_RAW. Where it cannot
/// ask, as where that interface is down, the kernel's release tells.
bool kernel_knows_super_frames();

// --- Parts of it, for tests -----------------------------------------------------------------------------------------

/// Sends a frame without segmentation, and one with, through a packet socket with PACKET_VNET_HDR. Nothing if even the
/// first one is refused.
std::optional<bool> takes_super_frames(int fd);
/// Judges by a release like "6.1.0-30-amd64".
bool release_has_super_frames(std::string_view release);

}  // namespace uroce::glue::kif
