// The frames of selective recovery between uroce peers. Their opcodes are manufacturer-specific (IBTA vol. 1, 9.2.1:
// 0xC0 to 0xFF), so that every other receiver drops them.
//
//   HELLO  BTH, Hello                "I am a uroce peer, and I buffer packets that arrive out of order"
//   SACK   BTH, AETH, Sack, bitmap   an ACK or NAK, the packets that have arrived beyond it, and an echo for the RTT
//
// While nothing is out of order, uroce peers exchange ACKs: a SACK would say no more.
//
// Numbers are big-endian. Each connection of a queue pair has a random epoch. A frame with another epoch belongs to
// another connection, or is forged. All other frames to a proven uroce peer have a seal in reserved bits of the BTH.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/psn.h"
#include "base/random.h"
#include "wire/headers.h"

namespace uroce::wire {

/// Ten bits that follow from both epochs, so that a stranger has to guess them: a packet that is not the next one is
/// believed only with the seal. With a window of 1023 PSNs that takes as many guesses as the one PSN of the next
/// packet. The BTH has them in its six reserved bits and in the upper four of its seven; the lower three are the copy.
struct Seal {
  static constexpr uint32_t kCopyBits = 3;
  static constexpr uint8_t kCopyMask = (1u << kCopyBits) - 1;

  uint8_t upper = 0;  ///< Bth::reserved6
  uint8_t lower = 0;  ///< Bth::reserved7 without the copy

  /// Of frames from the side whose epoch is `sender`. Never that of a frame without a seal, all zeros.
  static Seal of(uint32_t sender, uint32_t receiver) {
    constexpr uint64_t kSeals = (1u << (6 + 7 - kCopyBits)) - 1;
    const uint64_t drawn = 1 + Random(uint64_t{sender} << 32 | receiver).below(kSeals);
    return {static_cast<uint8_t>(drawn >> (7 - kCopyBits)), static_cast<uint8_t>(drawn << kCopyBits & 0x7f)};
  }
  static Seal of(const Bth& bth) { return {bth.reserved6, static_cast<uint8_t>(bth.reserved7 & ~kCopyMask)}; }
  friend bool operator==(const Seal&, const Seal&) = default;
};

/// How often the packet of a sealed frame was sent before; kCopyMask: at least so often.
inline uint8_t copy_of(const Bth& bth) { return bth.reserved7 & Seal::kCopyMask; }

struct Hello {
  static constexpr std::size_t kBytes = 20;
  static constexpr uint32_t kMagic = 0x55524f43;  // "UROC"
  static constexpr uint8_t kVersion = 2;          ///< 1: frames had no seal

  uint32_t epoch = 0;       ///< the sender's, not 0
  uint32_t peer_epoch = 0;  ///< the receiver's; 0: the sender does not know it yet
  uint16_t parking = 0;     ///< capacity of the sender's reorder buffer in packets, 1..1023
  bool answer = false;      ///< asks the receiver to answer with a HELLO
  /// The UDP source port, kLeastSourcePort or more, with which the receiver's frames get to the sender's engine at
  /// once; 0: any.
  uint16_t port = 0;
  /// The sender would like another port, near this one, with which its own frames get to the receiver's engine; 0: no.
  uint16_t wish = 0;

  /// No value when `payload` is not a valid HELLO.
  static std::optional<Hello> load(std::span<const std::byte> payload) {
    if (payload.size() != kBytes || load_be32(payload.data()) != kMagic) return std::nullopt;
    const std::byte* p = payload.data();
    if (load8(p + 4) != kVersion) return std::nullopt;
    Hello h;
    h.answer = (load8(p + 5) & 1) != 0;
    h.parking = load_be16(p + 6);
    h.epoch = load_be32(p + 8);
    h.peer_epoch = load_be32(p + 12);
    h.port = load_be16(p + 16);
    h.wish = load_be16(p + 18);
    if (h.epoch == 0 || h.parking == 0 || h.parking > 1023) return std::nullopt;
    if (h.port != 0 && h.port < kLeastSourcePort) return std::nullopt;
    return h;
  }
  void store(std::byte* p) const {
    store_be32(p, kMagic);
    store8(p + 4, kVersion);
    store8(p + 5, answer ? 1 : 0);
    store_be16(p + 6, parking);
    store_be32(p + 8, epoch);
    store_be32(p + 12, peer_epoch);
    store_be16(p + 16, port);
    store_be16(p + 18, wish);
  }
};

struct Sack {
  static constexpr std::size_t kBytes = 16;  ///< without the bitmap
  static constexpr std::size_t kMaxWords = 16;
  static constexpr std::size_t kMaxBytes = kBytes + kMaxWords * 8;

  uint32_t epoch = 0;      ///< the receiver's
  Psn base{};              ///< the next PSN that the sender expects
  Psn echo{};              ///< the request packet that triggered this SACK
  uint8_t echo_tag = 0;    ///< copy_of() that packet
  bool duplicate = false;  ///< that packet was a duplicate, and of no use
  uint32_t hold = 0;       ///< nanoseconds between that packet's arrival and this frame
  uint32_t words = 0;      ///< of the bitmap
  /// Bit i of the bitmap: PSN base + 1 + i has arrived. The lowest bit of the first word is bit 0.
  std::array<uint64_t, kMaxWords> bitmap;

  static bool load(std::span<const std::byte> payload, Sack& s) {
    if (payload.size() < kBytes || payload.size() > kMaxBytes || payload.size() % 8 != 0) return false;
    const std::byte* p = payload.data();
    s.epoch = load_be32(p);
    s.duplicate = (load8(p + 4) & 0x80) != 0;
    s.base = Psn(load_be24(p + 5));
    s.echo_tag = load8(p + 8) & 0x7f;
    s.echo = Psn(load_be24(p + 9));
    s.hold = load_be32(p + 12);
    s.words = static_cast<uint32_t>((payload.size() - kBytes) / 8);
    for (uint32_t i = 0; i < s.words; ++i) s.bitmap[i] = load_be64(p + kBytes + std::size_t{i} * 8);
    return true;
  }
  std::size_t bytes() const { return kBytes + std::size_t{words} * 8; }
  void store(std::byte* p) const {
    store_be32(p, epoch);
    store8(p + 4, duplicate ? 0x80 : 0);
    store_be24(p + 5, base.value());
    store8(p + 8, echo_tag & 0x7f);
    store_be24(p + 9, echo.value());
    store_be32(p + 12, hold);
    for (uint32_t i = 0; i < words; ++i) store_be64(p + kBytes + std::size_t{i} * 8, bitmap[i]);
  }
};

}  // namespace uroce::wire
