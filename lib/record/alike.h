// Runs of frames that are alike: from Ethernet to the QPN in the BTH all bytes are the same, but for what IPv4 changes
// from packet to packet. A recorder writes the first of a run whole, and of the others what follows the QPN.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "record/blocks.h"
#include "record/structures.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace uroce::record {

/// The bytes of a frame that matter: not the payload of a usual packet.
struct Kept {
  std::size_t bytes = 0;  ///< at the beginning
  std::size_t bth = 0;    ///< where the BTH is; 0: this is no RoCE packet, or one of which all bytes matter
};

inline Kept kept_of(std::span<const std::byte> frame) {
  constexpr std::size_t kLeast =
      wire::kEthernetBytes + wire::kVlanBytes + wire::kIpv6Bytes + wire::kUdpBytes + wire::Bth::kBytes;
  if (frame.size() <= kLeast) return {frame.size()};
  std::size_t at = wire::kEthernetBytes;
  if (frame[12] == std::byte{0x81}) at += wire::kVlanBytes;
  if (frame[at] == std::byte{0x45}) {
    at += wire::kIpv4Bytes;
  } else if ((frame[at] >> 4) == std::byte{6} && frame[at + 6] == std::byte{17}) {
    at += wire::kIpv6Bytes;
  } else {
    return {frame.size()};
  }
  at += wire::kUdpBytes;
  const auto opcode = static_cast<uint8_t>(frame[at]);
  const std::size_t headers = wire::info(static_cast<wire::Opcode>(opcode)).header_length;
  // HELLO and SACK have payload that the engine reads. An unknown opcode has no headers.
  if (opcode >= 0xc0 || headers == 0) return {frame.size()};
  return {std::min(frame.size(), at + headers), at};
}

/// The frames of a run differ behind the QPN, and in these bytes of IPv4's header: from its id to its checksum.
inline constexpr std::size_t kBthSame = 8;
inline constexpr std::size_t kIpv4Middle = wire::kEthernetBytes + 4;
inline constexpr std::size_t kMiddleBytes = 8;

/// The bytes that the frames of a run share, with `kIpBytes` of IP header and without a tag.
template <std::size_t kIpBytes>
class Shared {
 public:
  static constexpr std::size_t kBth = wire::kEthernetBytes + kIpBytes + wire::kUdpBytes;

  /// `frame` has a BTH at kBth.
  explicit Shared(const std::byte* frame) {
    for (std::size_t i = 0; i < kBlocks; ++i) blocks_[i] = block_at(frame, i);
  }
  /// `others`: 0 where all else is the same.
  [[gnu::always_inline]] bool matches(const std::byte* frame, Block others = Block{}) const {
    for (std::size_t i = 0; i < kBlocks; ++i) others |= block_at(frame, i) ^ blocks_[i];
    return (others[0] | others[1]) == 0;
  }

 private:
  static constexpr std::size_t kEnd = kBth + kBthSame;
  static constexpr std::size_t kBlocks = (kEnd + sizeof(Block) - 1) / sizeof(Block);

  // The last two overlap. The second one has IPv4's id and checksum.
  [[gnu::always_inline]] static Block block_at(const std::byte* frame, std::size_t i) {
    const Block block = load_block(frame + std::min(i * sizeof(Block), kEnd - sizeof(Block)));
    if (i != 1 || kIpBytes != wire::kIpv4Bytes) return block;
    return block & Block{0xffffffff0000ffff, 0xffffffffffff0000};
  }

  Block blocks_[kBlocks];
};

/// A run of frames with `kept` bytes each, of which the first is written, with the others behind it.
struct Run {
  RunRecord record{};
  uint32_t frames = 1;
  Kept kept{};

  std::size_t rest_bytes() const {
    return record.alike * (std::size_t{record.tail} + (record.middle != 0 ? kMiddleBytes : 0));
  }
};

/// The run that begins with frame 0 of `count`, which is at `first`. `matches(shared, i)`: frame i is like it.
template <class Matches>
[[gnu::always_inline]] inline Run run_of(const Kept& kept, std::size_t count, const std::byte* first,
                                         Matches&& matches) {
  Run run{.kept = kept};
  const auto find = [&]<std::size_t kIpBytes>(const Shared<kIpBytes> shared) {
    std::size_t n = 1;
    while (n < count && matches(shared, n)) ++n;
    run.frames = static_cast<uint32_t>(n);
    run.record = {.alike = static_cast<uint16_t>(n - 1),
                  .tail = static_cast<uint8_t>(kept.bytes - kept.bth - kBthSame),
                  .middle = kIpBytes == wire::kIpv4Bytes ? uint8_t{kIpv4Middle} : uint8_t{0}};
  };
  count = std::min<std::size_t>(count, UINT16_MAX);
  if (count < 2 || kept.bth == 0) return run;
  if (kept.bth == Shared<wire::kIpv4Bytes>::kBth) {
    find(Shared<wire::kIpv4Bytes>(first));
  } else if (kept.bth == Shared<wire::kIpv6Bytes>::kBth) {
    find(Shared<wire::kIpv6Bytes>(first));
  }
  return run;
}

/// Writes of the frames behind the first what is their own; frame i is at `frame_at(i)`. Returns the end.
template <class FrameAt>
[[gnu::always_inline]] inline std::byte* write_alike(std::byte* to, const Run& run, FrameAt&& frame_at) {
  // Copied: for all that the compiler knows, the writes below may change `run`.
  const std::size_t frames = run.frames;
  const std::size_t tail_at = run.kept.bth + kBthSame;
  const std::size_t tail = run.record.tail;
  // A copy of a constant size is no call.
  const auto write = [&](const auto middle, const auto size) {
    for (std::size_t i = 1; i < frames; ++i) {
      const std::byte* const frame = frame_at(i);
      if (middle() != 0) std::memcpy(to, frame + kIpv4Middle, kMiddleBytes);
      std::memcpy(to + middle(), frame + tail_at, size());
      to += middle() + size();
    }
    return to;
  };
  static constexpr std::size_t kBthRest = wire::Bth::kBytes - kBthSame;
  if (run.record.middle == 0) return write([] { return std::size_t{0}; }, [tail] { return tail; });
  const auto ipv4 = [] { return kMiddleBytes; };
  switch (tail) {
    case kBthRest: return write(ipv4, [] { return kBthRest; });
    case kBthRest + wire::Aeth::kBytes: return write(ipv4, [] { return kBthRest + wire::Aeth::kBytes; });
    case kBthRest + wire::Reth::kBytes: return write(ipv4, [] { return kBthRest + wire::Reth::kBytes; });
    default: return write(ipv4, [tail] { return tail; });
  }
}

}  // namespace uroce::record
