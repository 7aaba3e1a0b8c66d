#include "transport/engine/admission.h"

#include <algorithm>
#include <cstring>

#include "base/wr_opcodes.h"

namespace uroce::transport {
namespace {

// IBTA vol. 1, 10.9.3: P_Keys match when their low 15 bits agree, are not 0, and one side is a full member.
bool pkeys_match(uint16_t a, uint16_t b) {
  if (a == b && a > 0x8000) [[likely]]
    return true;
  return (a & 0x7fff) != 0 && (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000) != 0;
}

uint16_t vlan_of(const wire::Packet& packet) { return packet.vlan.value_or(0) & 0xfff; }

/// The source address of `theirs` is the destination of `mine`, and the other way round. `Source` is the offset of the
/// source address; constants, so that the comparisons need no call.
template <std::size_t Source, std::size_t Size>
wire::Drop compare_addresses(const std::byte* theirs, const std::byte* mine) {
  constexpr std::size_t kDestination = Source + Size;
  if (std::memcmp(theirs + Source, mine + kDestination, Size) != 0) return wire::Drop::source_not_peer;
  if (std::memcmp(theirs + kDestination, mine + Source, Size) != 0) return wire::Drop::address_not_ours;
  return wire::Drop::none;
}

// Is the frame from the QP's peer to the QP's own address? The route has both, as destination and source.
wire::Drop check_path(const Qp& qp, const wire::Packet& packet) {
  const wire::RouteTemplate& route = *qp.route;
  const std::byte* mine = route.bytes.data() + route.l3_offset;
  const std::byte* theirs = packet.frame + packet.l3_offset;
  if (packet.ip_version != route.ip_version) return wire::Drop::source_not_peer;
  const wire::Drop other =
      packet.ip_version == 4 ? compare_addresses<12, 4>(theirs, mine) : compare_addresses<8, 16>(theirs, mine);
  if (other != wire::Drop::none) return other;
  const uint16_t own_vlan = route.l3_offset == 18 ? load_be16(route.bytes.data() + 14) & 0xfff : 0;
  return vlan_of(packet) == own_vlan ? wire::Drop::none : wire::Drop::vlan_mismatch;
}

constexpr uint64_t kIpv4Prefix = uint64_t{0xffff} << 32;  // in the lower half of an IPv4 address's GID

// A datagram may come from any address, but must be for an address of this port. Not inlined: its registers would be
// saved for every packet.
[[gnu::noinline]] wire::Drop check_destination(const Context& ctx, std::span<const Gid> gids,
                                               const wire::Packet& packet) {
  if (!vlan_matches(ctx, packet)) return wire::Drop::vlan_mismatch;
  const std::byte* const ip = packet.frame + packet.l3_offset;
  const bool ipv4 = packet.ip_version == 4;
  const uint64_t upper = ipv4 ? 0 : load_be64(ip + 24);
  const uint64_t lower = ipv4 ? kIpv4Prefix | load_be32(ip + 16) : load_be64(ip + 32);
  const bool ours = std::ranges::any_of(gids, [&](const Gid& gid) {
    const auto bytes = std::as_bytes(std::span(gid.bytes));
    return load_be64(bytes.data()) == upper && load_be64(bytes.data() + 8) == lower;
  });
  return ours ? wire::Drop::none : wire::Drop::address_not_ours;
}

// Not inlined for the same reason.
[[gnu::noinline]] bool is_allowed(const Context& ctx, std::span<const Gid> gids, const wire::Packet& packet) {
  const Gid peer = packet.source();
  return ctx.config.peers.takes(peer) || std::ranges::find(gids, peer) != gids.end();
}

// Annex A14: an initiator answers no request, and a target gets no response.
bool is_for_xrc(QpType type, wire::Opcode opcode) {
  const bool initiator = type == QpType::xrc_initiator;
  switch (wire::transport_of(opcode)) {
    case wire::Transport::xrc: return wire::info(opcode).flags.has(wire::Op::request) != initiator;
    case wire::Transport::cnp: return true;
    case wire::Transport::manufacturer: return initiator || opcode == wire::Opcode::hello;
    default: return false;
  }
}

bool is_spoken_by(QpType type, wire::Opcode opcode) {
  using enum wire::Transport;
  const wire::Transport transport = wire::transport_of(opcode);
  if (type == QpType::rc) [[likely]]
    return transport == rc || transport == manufacturer || transport == cnp;
  if (type == QpType::raw_packet) return false;
  if (is_xrc(type)) return is_for_xrc(type, opcode);
  return transport == (type == QpType::uc ? uc : ud);
}

}  // namespace

bool vlan_matches(const Context& ctx, const wire::Packet& packet) { return vlan_of(packet) == ctx.config.vlan; }

wire::Drop admit(const Context& ctx, std::span<const Gid> gids, const wire::Packet& packet, const Qp* qp,
                 bool to_group) {
  // On an interface that several programs share, most of these are for another one's address.
  if (qp == nullptr) {
    const wire::Drop reason = check_destination(ctx, gids, packet);
    return reason == wire::Drop::none ? wire::Drop::qp_unknown : reason;
  }
  // A packet of another transport is dropped silently (9.6.1.3).
  if (!is_spoken_by(qp->type, packet.bth.opcode)) return wire::Drop::opcode_mismatch;
  if (qp->state == QpState::reset || qp->state == QpState::init || qp->state == QpState::error) {
    return wire::Drop::qp_state;
  }
  if (!pkeys_match(packet.bth.pkey, qp->pkey)) return wire::Drop::pkey;
  if (qp->type != QpType::ud) return check_path(*qp, packet);
  if (!ctx.config.peers.takes_all() && !is_allowed(ctx, gids, packet)) [[unlikely]]
    return wire::Drop::peer_not_allowed;
  return to_group ? wire::Drop::none : check_destination(ctx, gids, packet);
}

}  // namespace uroce::transport
