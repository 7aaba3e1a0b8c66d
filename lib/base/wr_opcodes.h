// The work request opcodes that a queue pair supports, by its type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

namespace uroce {

/// True for both ends of an extended reliable connection.
constexpr bool is_xrc(QpType type) { return type == QpType::xrc_initiator || type == QpType::xrc_target; }

/// True for types whose packets are acknowledged.
constexpr bool is_reliable(QpType type) { return type == QpType::rc || is_xrc(type); }

/// True for the types that uroce has. Applications and peers can pass any value.
constexpr bool is_known(QpType type) {
  return is_reliable(type) || type == QpType::uc || type == QpType::ud || type == QpType::raw_packet;
}

/// True for the types that are connected to one peer. Each message of the others goes where it says.
constexpr bool has_peer(QpType type) { return type != QpType::ud && type != QpType::raw_packet; }

namespace detail {

constexpr uint16_t type_bit(QpType type) { return static_cast<uint16_t>(1u << static_cast<uint32_t>(type)); }

constexpr auto make_types_by_opcode() {
  // A target sends nothing.
  constexpr uint16_t kRc = type_bit(QpType::rc) | type_bit(QpType::xrc_initiator);
  constexpr uint16_t kRcUc = kRc | type_bit(QpType::uc);
  constexpr uint16_t kRcUcUd = kRcUc | type_bit(QpType::ud);
  std::array<uint16_t, 16> types{};
  const auto allow = [&types](WrOpcode opcode, uint16_t mask) { types[static_cast<std::size_t>(opcode)] = mask; };
  allow(WrOpcode::rdma_write, kRcUc);
  allow(WrOpcode::rdma_write_with_imm, kRcUc);
  allow(WrOpcode::send, kRcUcUd | type_bit(QpType::raw_packet));
  allow(WrOpcode::send_with_imm, kRcUcUd);
  allow(WrOpcode::rdma_read, kRc);
  allow(WrOpcode::compare_swap, kRc);
  allow(WrOpcode::fetch_add, kRc);
  allow(WrOpcode::local_invalidate, kRcUc);
  allow(WrOpcode::bind_mw, kRcUc);
  allow(WrOpcode::send_with_invalidate, kRc);
  allow(WrOpcode::flush, kRc);
  allow(WrOpcode::atomic_write, kRc);
  return types;
}

inline constexpr auto kTypesByOpcode = make_types_by_opcode();

}  // namespace detail

/// True when the send queue of a queue pair of `type` takes `opcode` (IBTA vol. 1, table 88). `type` must be known.
/// False for an undefined opcode.
constexpr bool offers(QpType type, WrOpcode opcode) {
  const auto index = static_cast<std::size_t>(opcode);
  return index < detail::kTypesByOpcode.size() && (detail::kTypesByOpcode[index] & detail::type_bit(type)) != 0;
}

/// True for operations that the queue pair executes by itself, without sending a packet.
constexpr bool is_local(WrOpcode opcode) { return opcode == WrOpcode::bind_mw || opcode == WrOpcode::local_invalidate; }

constexpr bool is_atomic(WrOpcode opcode) { return opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add; }

/// True for operations that take a receive of the peer, or of a shared receive queue, and complete it there.
constexpr bool takes_recv(WrOpcode opcode) {
  return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm || opcode == WrOpcode::send_with_invalidate ||
         opcode == WrOpcode::rdma_write_with_imm;
}

/// True for operations whose response carries data for the request's buffers.
constexpr bool is_read_or_atomic(WrOpcode opcode) { return opcode == WrOpcode::rdma_read || is_atomic(opcode); }

/// FLUSH and ATOMIC WRITE. They have no buffers, and a READ response without data answers them (annex A19).
constexpr bool is_placement(WrOpcode opcode) { return opcode == WrOpcode::flush || opcode == WrOpcode::atomic_write; }

/// May a FLUSH ask for this? Applications and peers can pass any values.
constexpr bool is_placement_flush_target(PlacementFlags placement, FlushScope scope) {
  const bool known = placement.without(Placement::global | Placement::persistent).empty();
  return known && !placement.empty() && (scope == FlushScope::range || scope == FlushScope::region);
}

/// True for operations that a response answers, not an ACK. They count as outstanding READs and atomics.
constexpr bool has_response(WrOpcode opcode) { return is_read_or_atomic(opcode) || is_placement(opcode); }

}  // namespace uroce
