// The work request opcodes that a queue pair supports, by its type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

namespace uroce {

/// True for the types that uroce has. Applications and peers can pass any value.
constexpr bool is_known(QpType type) { return type == QpType::rc || type == QpType::uc || type == QpType::ud; }

namespace detail {

constexpr uint8_t type_bit(QpType type) { return static_cast<uint8_t>(1u << static_cast<uint32_t>(type)); }

constexpr auto make_types_by_opcode() {
  constexpr uint8_t kRc = type_bit(QpType::rc);
  constexpr uint8_t kRcUc = kRc | type_bit(QpType::uc);
  constexpr uint8_t kAll = kRcUc | type_bit(QpType::ud);
  std::array<uint8_t, 10> types{};
  const auto allow = [&types](WrOpcode opcode, uint8_t mask) { types[static_cast<std::size_t>(opcode)] = mask; };
  allow(WrOpcode::rdma_write, kRcUc);
  allow(WrOpcode::rdma_write_with_imm, kRcUc);
  allow(WrOpcode::send, kAll);
  allow(WrOpcode::send_with_imm, kAll);
  allow(WrOpcode::rdma_read, kRc);
  allow(WrOpcode::compare_swap, kRc);
  allow(WrOpcode::fetch_add, kRc);
  allow(WrOpcode::local_invalidate, kRcUc);
  allow(WrOpcode::bind_mw, kRcUc);
  allow(WrOpcode::send_with_invalidate, kRc);
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

/// True for operations whose response carries data for the request's buffers.
constexpr bool is_read_or_atomic(WrOpcode opcode) { return opcode == WrOpcode::rdma_read || is_atomic(opcode); }

}  // namespace uroce
