// Decides whether a queue pair takes a packet: transport, state, P_Key and addresses (IBTA vol. 1, 9.6.1).
#pragma once

#include <bit>
#include <span>

#include "base/bytes.h"
#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "wire/ethernet.h"

namespace uroce::transport {

/// Checks whether the packet is for this QP. Returns Drop::none if it is. `gids`: the port's addresses. `to_group`: the
/// packet was sent to a multicast group that the QP has joined.
wire::Drop admit(const Context& ctx, std::span<const Gid> gids, const wire::Packet& packet, const Qp* qp,
                 bool to_group = false);
/// The shortcut for plain packets (wire/plain_packet.h): true where an RC queue pair in RTS takes one that no switch
/// has marked. False says nothing: ask admit().
inline bool takes_plain(const Qp& qp, const wire::Packet& packet);
/// Is the packet's VLAN id the port's?
bool vlan_matches(const Context& ctx, const wire::Packet& packet);

inline bool takes_plain(const Qp& qp, const wire::Packet& packet) {
  if (qp.type != QpType::rc || qp.state != QpState::rts) return false;
  if (packet.ecn == CnpLimiter::kCongestionExperienced) return false;
  // Both are full members of the same partition.
  constexpr uint16_t kFullMember = 0x8000;
  if (packet.bth.pkey != qp.pkey || packet.bth.pkey <= kFullMember) return false;
  // The lengths of the four kinds of route differ: this is one without a tag, and of the packet's IP version.
  const wire::RouteTemplate& route = *qp.route;
  if (route.length != packet.bth_offset) return false;
  const std::byte* mine = route.bytes.data() + wire::kEthernetBytes;
  const std::byte* theirs = packet.frame + wire::kEthernetBytes;
  // The source of one is the destination of the other.
  if (packet.ip_version == 4) return load_be64(theirs + 12) == std::rotl(load_be64(mine + 12), 32);
  return load_be64(theirs + 8) == load_be64(mine + 24) && load_be64(theirs + 16) == load_be64(mine + 32) &&
         load_be64(theirs + 24) == load_be64(mine + 8) && load_be64(theirs + 32) == load_be64(mine + 16);
}

}  // namespace uroce::transport
