// Transport headers as values, with their wire layout as offsets (IBTA vol. 1, 9.2 to 9.3).
// load() and store() touch exactly kBytes bytes. The caller checks the bounds, as parse() in packet.h does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/psn.h"
#include "wire/header_bytes.h"
#include "wire/opcode.h"

namespace uroce::wire {

inline constexpr uint16_t kUdpPort = 4791;
inline constexpr uint16_t kLeastSourcePort = 0xc000;  ///< of RoCE packets (IBTA vol. 1, A17.3.1)
/// Ethernet 14, VLAN 4, IPv6 40, UDP 8, BTH 12, largest extended headers 32 (XRCETH and AtomicETH).
inline constexpr std::size_t kMaxHeaderBytes = 14 + 4 + 40 + 8 + 12 + 32;

struct Bth {
  static constexpr std::size_t kBytes = kBthBytes;
  Opcode opcode{};
  bool solicited = false;
  bool migrated = true;  ///< MigReq; RNICs send 1, rxe sends 0; both are accepted
  uint8_t pad = 0;       ///< 0..3 bytes after the payload
  uint8_t version = 0;   ///< TVer
  uint16_t pkey = 0xffff;
  bool fecn = false;
  bool becn = false;
  uint8_t reserved6 = 0;  ///< kept, so that encoding a parsed frame gives the same bytes
  uint32_t dest_qpn = 0;  ///< 24 bits
  bool ack_request = false;
  uint8_t reserved7 = 0;
  Psn psn{};

  static Bth load(const std::byte* p) {
    Bth h;
    h.read(p);
    return h;
  }
  /// The same as load(), but in place. Copying a value right after its small stores would stall the CPU.
  void read(const std::byte* p) {
    const uint32_t first = load_be32(p);
    opcode = static_cast<Opcode>(first >> 24);
    solicited = (first & kSolicited) != 0;
    migrated = (first & kMigrated) != 0;
    pad = static_cast<uint8_t>(first >> kPadShift & 3);
    version = static_cast<uint8_t>(first >> kVersionShift & 0xf);
    pkey = static_cast<uint16_t>(first);
    const uint32_t second = load_be32(p + 4);
    fecn = (second & kFecn) != 0;
    becn = (second & kBecn) != 0;
    reserved6 = static_cast<uint8_t>(second >> 24 & 0x3f);
    dest_qpn = second & 0xffffff;
    const uint32_t third = load_be32(p + 8);
    ack_request = (third & kAckRequest) != 0;
    reserved7 = static_cast<uint8_t>(third >> 24 & 0x7f);
    psn = Psn(third);
  }
  /// As read(), for the header of a plain packet (plain_packet.h): version 0, neither FECN nor BECN. False: it is
  /// another one, and nothing was read.
  bool read_plain(const std::byte* p) {
    const uint32_t first = load_be32(p);
    const uint32_t second = load_be32(p + 4);
    if (((first & 0xfu << kVersionShift) | (second & (kFecn | kBecn))) != 0) return false;
    opcode = static_cast<Opcode>(first >> 24);
    solicited = (first & kSolicited) != 0;
    migrated = (first & kMigrated) != 0;
    pad = static_cast<uint8_t>(first >> kPadShift & 3);
    version = 0;
    pkey = static_cast<uint16_t>(first);
    fecn = becn = false;
    reserved6 = static_cast<uint8_t>(second >> 24);
    dest_qpn = second & 0xffffff;
    const uint32_t third = load_be32(p + 8);
    ack_request = (third & kAckRequest) != 0;
    reserved7 = static_cast<uint8_t>(third >> 24 & 0x7f);
    psn = Psn(third);
    return true;
  }
  void store(std::byte* p) const {
    store_be32(p, static_cast<uint32_t>(opcode) << 24 | (solicited ? kSolicited : 0) | (migrated ? kMigrated : 0) |
                      (pad & 3u) << kPadShift | (version & 0xfu) << kVersionShift | pkey);
    store_be32(p + 4, (fecn ? kFecn : 0) | (becn ? kBecn : 0) | (reserved6 & 0x3fu) << 24 | (dest_qpn & 0xffffff));
    store_be32(p + 8, (ack_request ? kAckRequest : 0) | (reserved7 & 0x7fu) << 24 | psn.value());
  }

 private:
  // Bits of the header's three words.
  static constexpr uint32_t kSolicited = 1u << 23;
  static constexpr uint32_t kMigrated = 1u << 22;
  static constexpr uint32_t kPadShift = 20;
  static constexpr uint32_t kVersionShift = 16;
  static constexpr uint32_t kFecn = 1u << 31;
  static constexpr uint32_t kBecn = 1u << 30;
  static constexpr uint32_t kAckRequest = 1u << 31;
};

struct Reth {
  static constexpr std::size_t kBytes = kRethBytes;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;  ///< bytes of the whole message

  static Reth load(const std::byte* p) { return {load_be64(p), load_be32(p + 8), load_be32(p + 12)}; }
  void store(std::byte* p) const {
    store_be64(p, va);
    store_be32(p + 8, rkey);
    store_be32(p + 12, length);
  }
};

/// The Flush Extended Transport Header (annex A19), one word: reserved 26 bits, selectivity 2, placement 4.
struct Feth {
  static constexpr std::size_t kBytes = kFethBytes;
  uint8_t placement = 0;    ///< PlacementFlags, 4 bits
  uint8_t selectivity = 0;  ///< FlushScope, 2 bits
  uint32_t reserved = 0;    ///< 26 bits

  static Feth load(const std::byte* p) {
    const uint32_t word = load_be32(p);
    return {static_cast<uint8_t>(word & 0xf), static_cast<uint8_t>(word >> 4 & 3), word >> 6};
  }
  void store(std::byte* p) const { store_be32(p, reserved << 6 | (selectivity & 3u) << 4 | (placement & 0xfu)); }
};

struct AtomicEth {
  static constexpr std::size_t kBytes = kAtomicEthBytes;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;

  static AtomicEth load(const std::byte* p) {
    return {load_be64(p), load_be32(p + 8), load_be64(p + 12), load_be64(p + 20)};
  }
  void store(std::byte* p) const {
    store_be64(p, va);
    store_be32(p + 8, rkey);
    store_be64(p + 12, swap_add);
    store_be64(p + 20, compare);
  }
};

/// The kind of an AETH, from the top three bits of its syndrome.
enum class AethKind : uint8_t { ack = 0x00, rnr_nak = 0x20, reserved = 0x40, nak = 0x60, other = 0xff };

enum class NakCode : uint8_t {
  psn_sequence = 0,
  invalid_request = 1,
  remote_access = 2,
  remote_operational = 3,
  invalid_rd_request = 4,
};

struct Aeth {
  static constexpr std::size_t kBytes = kAethBytes;
  static constexpr uint8_t kNoCreditLimit = 0x1f;
  uint8_t syndrome = 0;
  uint32_t msn = 0;  ///< 24 bits

  bool is_ack() const { return (syndrome & 0xe0) == 0; }
  AethKind kind() const {
    switch (syndrome & 0xe0) {
      case 0x00: return AethKind::ack;
      case 0x20: return AethKind::rnr_nak;
      case 0x60: return AethKind::nak;
      case 0x40: return AethKind::reserved;
      default: return AethKind::other;
    }
  }
  /// Credit code, RNR timer code or NAK code, by kind().
  uint8_t code() const { return syndrome & 0x1f; }
  static constexpr uint8_t ack(uint8_t credit_code) { return credit_code & 0x1f; }
  static constexpr uint8_t rnr(uint8_t timer_code) { return 0x20 | (timer_code & 0x1f); }
  static constexpr uint8_t nak(NakCode code) { return 0x60 | static_cast<uint8_t>(code); }

  static Aeth load(const std::byte* p) {
    const uint32_t word = load_be32(p);
    return {static_cast<uint8_t>(word >> 24), word & 0xffffff};
  }
  void store(std::byte* p) const { store_be32(p, uint32_t{syndrome} << 24 | (msn & 0xffffff)); }
};

struct Deth {
  static constexpr std::size_t kBytes = kDethBytes;
  uint32_t qkey = 0;
  uint8_t reserved = 0;
  uint32_t src_qpn = 0;  ///< 24 bits

  static Deth load(const std::byte* p) { return {load_be32(p), load8(p + 4), load_be24(p + 5)}; }
  void store(std::byte* p) const {
    store_be32(p, qkey);
    store8(p + 4, reserved);
    store_be24(p + 5, src_qpn);
  }
};

/// The shared receive queue that an XRC request is for (annex A14).
struct Xrceth {
  static constexpr std::size_t kBytes = kXrcethBytes;
  uint8_t reserved = 0;
  uint32_t srqn = 0;  ///< 24 bits

  static Xrceth load(const std::byte* p) { return {load8(p), load_be24(p + 1)}; }
  void store(std::byte* p) const {
    store8(p, reserved);
    store_be24(p + 1, srqn);
  }
};

}  // namespace uroce::wire
