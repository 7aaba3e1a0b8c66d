// Decides whether a queue pair takes a packet: transport, state, P_Key and addresses (IBTA vol. 1, 9.6.1).
#pragma once

#include <span>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Checks whether the packet is for this QP. Returns Drop::none if it is. `gids`: the port's addresses. `to_group`: the
/// packet was sent to a multicast group that the QP has joined.
wire::Drop admit(const Context& ctx, std::span<const Gid> gids, const wire::Packet& packet, const Qp* qp,
                 bool to_group = false);
/// Is the packet's VLAN id the port's?
bool vlan_matches(const Context& ctx, const wire::Packet& packet);

}  // namespace uroce::transport
