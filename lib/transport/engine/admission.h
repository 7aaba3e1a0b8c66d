// Which packets a queue pair takes: transport, state, P_Key and addresses (IBTA vol. 1, 9.6.1).
#pragma once

#include <span>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Is the packet one for this QP? `gids`: the port's addresses. `to_group`: the packet comes by way of a multicast
/// group that the QP has joined.
wire::Drop admit(const Context& ctx, std::span<const Gid> gids, const wire::Packet& packet, const Qp* qp,
                 bool to_group = false);
/// Does the packet's VLAN id belong to the port?
bool vlan_matches(const Context& ctx, const wire::Packet& packet);

}  // namespace uroce::transport
