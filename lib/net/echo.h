// ICMP echo requests as long as RoCE packets, and their answers. Plain functions over frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <uroce/types.h>

namespace uroce::net {

/// The way from a device to an address: the Ethernet header, and both ends.
struct EchoRoute {
  EthAddr device{}, next_hop{};
  uint16_t vlan = 0;  ///< id; 0: untagged
  Gid from{}, to{};
  bool operator==(const EchoRoute&) const = default;
};

/// The route that one of the device's own RoCE frames to `to` has taken; nullopt for any other frame.
std::optional<EchoRoute> route_of(std::span<const std::byte> frame, const Gid& from, const Gid& to);
/// An echo request in an IP packet of `bytes`, at least 48. No router may fragment it.
std::vector<std::byte> make_echo(const EchoRoute& route, uint16_t id, uint16_t sequence, uint32_t bytes);
/// Whether a frame is the answer to that request, as long and in one piece.
bool answers_echo(std::span<const std::byte> frame, const EchoRoute& route, uint16_t id, uint16_t sequence,
                  uint32_t bytes);

}  // namespace uroce::net
