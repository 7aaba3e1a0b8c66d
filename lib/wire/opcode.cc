#include "wire/opcode.h"

#include <cstddef>

#include "wire/header_bytes.h"

namespace uroce::wire {
namespace {

/// Annex A17.9.3: sixteen reserved bytes follow the BTH of a CNP.
constexpr std::size_t kCnpReservedBytes = 16;

constexpr uint8_t header_length(Opcode opcode, OpFlags f) {
  std::size_t n = kBthBytes;
  if (f.has(Op::feth)) n += kFethBytes;
  if (f.has(Op::reth)) n += kRethBytes;
  if (f.has(Op::aeth)) n += kAethBytes;
  if (f.has(Op::atomic_eth)) n += kAtomicEthBytes;
  if (f.has(Op::atomic_ack_eth)) n += kAtomicAckEthBytes;
  if (f.has(Op::imm)) n += kImmBytes;
  if (f.has(Op::ieth)) n += kIethBytes;
  if (f.has(Op::deth)) n += kDethBytes;
  if (f.has(Op::xrceth)) n += kXrcethBytes;
  if (opcode == Opcode::cnp) n += kCnpReservedBytes;
  return static_cast<uint8_t>(n);
}

constexpr OpFlags kOnly = Op::first | Op::last;
constexpr OpFlags kSend = Op::send | Op::request | Op::payload | Op::takes_recv;
constexpr OpFlags kWrite = Op::write | Op::request | Op::payload;
constexpr OpFlags kReadResponse = Op::read | Op::payload;

struct Row {
  Opcode opcode;
  const char* name;
  OpFlags flags;
};

constexpr Row kRows[] = {
    {Opcode::rc_send_first, "SEND_FIRST", kSend | Op::first},
    {Opcode::rc_send_middle, "SEND_MIDDLE", kSend},
    {Opcode::rc_send_last, "SEND_LAST", kSend | Op::last},
    {Opcode::rc_send_last_imm, "SEND_LAST_IMM", kSend | Op::last | Op::imm},
    {Opcode::rc_send_only, "SEND_ONLY", kSend | kOnly},
    {Opcode::rc_send_only_imm, "SEND_ONLY_IMM", kSend | kOnly | Op::imm},
    {Opcode::rc_write_first, "WRITE_FIRST", kWrite | Op::first | Op::reth},
    {Opcode::rc_write_middle, "WRITE_MIDDLE", kWrite},
    {Opcode::rc_write_last, "WRITE_LAST", kWrite | Op::last},
    {Opcode::rc_write_last_imm, "WRITE_LAST_IMM", kWrite | Op::last | Op::imm | Op::takes_recv},
    {Opcode::rc_write_only, "WRITE_ONLY", kWrite | kOnly | Op::reth},
    {Opcode::rc_write_only_imm, "WRITE_ONLY_IMM", kWrite | kOnly | Op::reth | Op::imm | Op::takes_recv},
    {Opcode::rc_read_request, "READ_REQUEST", Op::read | Op::request | kOnly | Op::reth},
    {Opcode::rc_read_response_first, "READ_RESPONSE_FIRST", kReadResponse | Op::first | Op::aeth},
    {Opcode::rc_read_response_middle, "READ_RESPONSE_MIDDLE", kReadResponse},
    {Opcode::rc_read_response_last, "READ_RESPONSE_LAST", kReadResponse | Op::last | Op::aeth},
    {Opcode::rc_read_response_only, "READ_RESPONSE_ONLY", kReadResponse | kOnly | Op::aeth},
    {Opcode::rc_ack, "ACK", Op::aeth},
    {Opcode::rc_atomic_ack, "ATOMIC_ACK", Op::atomic | kOnly | Op::aeth | Op::atomic_ack_eth},
    {Opcode::rc_compare_swap, "COMPARE_SWAP", Op::atomic | Op::request | kOnly | Op::atomic_eth},
    {Opcode::rc_fetch_add, "FETCH_ADD", Op::atomic | Op::request | kOnly | Op::atomic_eth},
    {Opcode::rc_send_last_inv, "SEND_LAST_INV", kSend | Op::last | Op::ieth},
    {Opcode::rc_send_only_inv, "SEND_ONLY_INV", kSend | kOnly | Op::ieth},
    {Opcode::rc_placement_flush, "FLUSH", Op::placement_flush | Op::request | kOnly | Op::feth | Op::reth},
    {Opcode::rc_atomic_write, "ATOMIC_WRITE", Op::atomic_write | Op::request | Op::payload | kOnly | Op::reth},
    {Opcode::uc_send_first, "SEND_FIRST", kSend | Op::first},
    {Opcode::uc_send_middle, "SEND_MIDDLE", kSend},
    {Opcode::uc_send_last, "SEND_LAST", kSend | Op::last},
    {Opcode::uc_send_last_imm, "SEND_LAST_IMM", kSend | Op::last | Op::imm},
    {Opcode::uc_send_only, "SEND_ONLY", kSend | kOnly},
    {Opcode::uc_send_only_imm, "SEND_ONLY_IMM", kSend | kOnly | Op::imm},
    {Opcode::uc_write_first, "WRITE_FIRST", kWrite | Op::first | Op::reth},
    {Opcode::uc_write_middle, "WRITE_MIDDLE", kWrite},
    {Opcode::uc_write_last, "WRITE_LAST", kWrite | Op::last},
    {Opcode::uc_write_last_imm, "WRITE_LAST_IMM", kWrite | Op::last | Op::imm | Op::takes_recv},
    {Opcode::uc_write_only, "WRITE_ONLY", kWrite | kOnly | Op::reth},
    {Opcode::uc_write_only_imm, "WRITE_ONLY_IMM", kWrite | kOnly | Op::reth | Op::imm | Op::takes_recv},
    {Opcode::ud_send_only, "SEND_ONLY", kSend | kOnly | Op::deth},
    {Opcode::ud_send_only_imm, "SEND_ONLY_IMM", kSend | kOnly | Op::deth | Op::imm},
    {Opcode::cnp, "CNP", {}},
    {Opcode::hello, "HELLO", Op::payload},
    {Opcode::sack, "SACK", Op::aeth | Op::payload},
};

constexpr std::array<OpcodeInfo, 256> make_table() {
  std::array<OpcodeInfo, 256> table{};
  for (const Row& row : kRows) {
    table[static_cast<uint8_t>(row.opcode)] = {row.name, row.flags, header_length(row.opcode, row.flags)};
    if (transport_of(row.opcode) != Transport::rc) continue;
    // Annex A14: XRC has the operations of RC. Its requests name a shared receive queue.
    const Opcode xrc = as(Transport::xrc, row.opcode);
    const OpFlags flags = row.flags.has(Op::request) ? row.flags | Op::xrceth : row.flags;
    table[static_cast<uint8_t>(xrc)] = {row.name, flags, header_length(xrc, flags)};
  }
  return table;
}

}  // namespace

constexpr std::array<OpcodeInfo, 256> kOpcodes = make_table();

namespace {

constexpr OpcodeInfo at(Opcode opcode) { return kOpcodes[static_cast<uint8_t>(opcode)]; }

constexpr bool table_is_consistent() {
  for (const OpcodeInfo& op : kOpcodes) {
    if (op.name == nullptr) {
      if (op.header_length != 0 || !op.flags.empty()) return false;
      continue;
    }
    const OpFlags f = op.flags;
    const int kinds = f.has(Op::send) + f.has(Op::write) + f.has(Op::read) + f.has(Op::atomic) +
                      f.has(Op::placement_flush) + f.has(Op::atomic_write);
    if (kinds > 1) return false;
    // Immediate data and the key to invalidate are in a message's last packet, never both.
    if (f.has_any(Op::imm | Op::ieth) && !f.has(Op::last)) return false;
    if (f.has_all(Op::imm | Op::ieth)) return false;
    if (f.has(Op::send) && !f.has(Op::takes_recv)) return false;
    if (f.has(Op::write) && f.has(Op::takes_recv) != f.has(Op::imm)) return false;
    // Only the first packet of a WRITE has the RETH.
    if (f.has(Op::write) && f.has(Op::reth) != f.has(Op::first)) return false;
    if (f.has(Op::aeth) && f.has(Op::request)) return false;
    if (f.has(Op::xrceth) && !f.has(Op::request)) return false;
  }
  return true;
}
static_assert(table_is_consistent());
static_assert(std::size(kRows) == 42);

// Lengths as IBTA vol. 1, table 38 implies them.
static_assert(at(Opcode::rc_send_middle).header_length == 12);
static_assert(at(Opcode::rc_ack).header_length == 16);
static_assert(at(Opcode::rc_write_only).header_length == 28);
static_assert(at(Opcode::rc_write_only_imm).header_length == 32);
static_assert(at(Opcode::rc_read_request).header_length == 28);
static_assert(at(Opcode::rc_atomic_ack).header_length == 24);
static_assert(at(Opcode::rc_fetch_add).header_length == 40);
static_assert(at(Opcode::rc_send_only_inv).header_length == 16);
static_assert(at(Opcode::rc_placement_flush).header_length == 32);
static_assert(at(Opcode::rc_atomic_write).header_length == 28);
static_assert(at(Opcode::ud_send_only_imm).header_length == 24);
static_assert(at(Opcode::cnp).header_length == 28);
static_assert(at(as(Transport::xrc, Opcode::rc_fetch_add)).header_length == 44);
static_assert(at(Opcode::xrc_ack).header_length == 16);
static_assert(transport_of(Opcode::cnp) == Transport::cnp);
static_assert(transport_of(Opcode::ud_send_only) == Transport::ud);

}  // namespace
}  // namespace uroce::wire
