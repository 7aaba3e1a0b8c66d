// BTH opcodes and the headers and rules of each, as a table (IBTA vol. 1, 9.2.1 and table 38; annex A14, A16, A17,
// A19).
#pragma once

#include <array>
#include <cstdint>

#include <uroce/flags.h>

namespace uroce::wire {

/// The top three bits of an opcode.
enum class Transport : uint8_t {
  rc = 0,
  uc = 1,
  rd = 2,
  ud = 3,
  cnp = 4,
  xrc = 5,
  manufacturer = 6,
  manufacturer2 = 7
};

enum class Opcode : uint8_t {
  rc_send_first = 0x00,
  rc_send_middle = 0x01,
  rc_send_last = 0x02,
  rc_send_last_imm = 0x03,
  rc_send_only = 0x04,
  rc_send_only_imm = 0x05,
  rc_write_first = 0x06,
  rc_write_middle = 0x07,
  rc_write_last = 0x08,
  rc_write_last_imm = 0x09,
  rc_write_only = 0x0a,
  rc_write_only_imm = 0x0b,
  rc_read_request = 0x0c,
  rc_read_response_first = 0x0d,
  rc_read_response_middle = 0x0e,
  rc_read_response_last = 0x0f,
  rc_read_response_only = 0x10,
  rc_ack = 0x11,
  rc_atomic_ack = 0x12,
  rc_compare_swap = 0x13,
  rc_fetch_add = 0x14,
  rc_send_last_inv = 0x16,
  rc_send_only_inv = 0x17,
  rc_placement_flush = 0x1c,
  rc_atomic_write = 0x1d,
  uc_send_first = 0x20,
  uc_send_middle = 0x21,
  uc_send_last = 0x22,
  uc_send_last_imm = 0x23,
  uc_send_only = 0x24,
  uc_send_only_imm = 0x25,
  uc_write_first = 0x26,
  uc_write_middle = 0x27,
  uc_write_last = 0x28,
  uc_write_last_imm = 0x29,
  uc_write_only = 0x2a,
  uc_write_only_imm = 0x2b,
  ud_send_only = 0x64,
  ud_send_only_imm = 0x65,
  cnp = 0x81,
  // The other operations of XRC are those of RC too: as().
  xrc_ack = 0xb1,
  xrc_atomic_ack = 0xb2,
  hello = 0xc0,  ///< between uroce peers, see wire/recovery.h
  sack = 0xc1,
};

/// Extended headers that follow the BTH, in wire order, and properties of the operation.
enum class Op : uint32_t {
  reth = 1u << 0,
  aeth = 1u << 1,
  atomic_eth = 1u << 2,
  atomic_ack_eth = 1u << 3,
  imm = 1u << 4,
  ieth = 1u << 5,
  deth = 1u << 6,
  payload = 1u << 7,   ///< may carry payload
  first = 1u << 8,     ///< first packet of its message (First and Only)
  last = 1u << 9,      ///< last packet of its message (Last and Only)
  request = 1u << 10,  ///< for the responder; without this flag, for the completer
  send = 1u << 11,
  write = 1u << 12,
  read = 1u << 13,
  atomic = 1u << 14,
  takes_recv = 1u << 15,  ///< consumes a receive work request at its last packet (SENDs from their first)
  feth = 1u << 16,
  placement_flush = 1u << 17,
  atomic_write = 1u << 18,
  xrceth = 1u << 19,  ///< follows the BTH directly
};
using OpFlags = Flags<Op>;

struct OpcodeInfo {
  const char* name = nullptr;  ///< e.g. "WRITE_FIRST"; nullptr: no such opcode
  OpFlags flags{};
  uint8_t header_length = 0;  ///< bytes of BTH and extended headers together
};

/// The table of all 256 opcodes; `name == nullptr` for undefined ones.
extern const std::array<OpcodeInfo, 256> kOpcodes;

inline const OpcodeInfo& info(Opcode opcode) { return kOpcodes[static_cast<uint8_t>(opcode)]; }
constexpr Transport transport_of(Opcode opcode) { return static_cast<Transport>(static_cast<uint8_t>(opcode) >> 5); }
/// The opcode of RC for the same operation. Every operation of UC and XRC has one.
constexpr Opcode as_rc(Opcode opcode) { return static_cast<Opcode>(static_cast<uint8_t>(opcode) & 0x1f); }
/// The opcode of `transport` for an operation of RC.
constexpr Opcode as(Transport transport, Opcode rc) {
  return static_cast<Opcode>(static_cast<uint8_t>(rc) | static_cast<uint8_t>(transport) << 5);
}

}  // namespace uroce::wire
