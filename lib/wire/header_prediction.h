// Header prediction, as V. Jacobson's TCP has it: most packets of a flow differ from the one before in few fields.
// Comparing the others with what they were costs less than parsing them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "wire/flow_icrc.h"
#include "wire/icrc.h"
#include "wire/plain_packet.h"

namespace uroce::wire {

/// Predicts the next plain packet of one flow, in IPv4: its headers from Ethernet to the destination QPN, its length,
/// and that it goes to the same queue pair. IP's id, the checksums and all bytes behind the QPN may differ.
class HeaderPrediction {
 public:
  /// Nothing is predicted.
  void forget() { size_ = kNone; }
  /// The beginning of the BTH where a plain packet in IPv4 has it: opcode to QPN, which most packets of other flows
  /// differ in. 0: the frame is too short.
  static uint64_t beginning_of(std::span<const std::byte> frame) {
    uint64_t beginning = 0;
    if (frame.size() >= kBth + plain::kAckBytes) [[likely]]
      std::memcpy(&beginning, frame.data() + kBth, sizeof beginning);
    return beginning;
  }
  /// May a frame with this beginning be as predicted? It saves most calls of takes().
  bool begins_with(uint64_t beginning) const { return blocks_[kBlocks - 1][1] == beginning; }
  /// True: packet() is what parse() gives for `frame`, but keeps the extended headers that the frame has not. False
  /// says nothing: ask parse_plain().
  [[gnu::always_inline]] bool takes(std::span<const std::byte> frame, Icrc icrc) {
    const std::byte* const at = frame.data();
    if (frame.size() != size_ || !same_headers(at) || sum_of(at) != sum_) return false;
    packet_.frame = at;
    packet_.icrc = icrc;
    const std::byte* const bth = at + kBth;
    const uint32_t third = load_be32(bth + 8);
    packet_.bth.ack_request = (third & kAckRequest) != 0;
    packet_.bth.reserved7 = static_cast<uint8_t>(third >> 24 & 0x7f);
    packet_.bth.psn = Psn(third);
    read_extended(bth + Bth::kBytes);
    const std::byte* const payload = at + payload_at_;
    packet_.payload = {payload, payload_bytes_};
    if (icrc != Icrc::check) return true;
    auto crc = IcrcState::resume(shared_.at(load_be16(at + kId)));
    const std::byte* const trailer = payload + payload_bytes_ + packet_.bth.pad;
    crc.update({bth + FlowIcrc::kSharedOfBth, trailer});
    return crc.value() == load_le32(trailer);
  }
  const Packet& packet() const { return packet_; }

  /// A frame with this beginning was not predicted. Did two before it have the same? Then another one is likely to
  /// come.
  bool comes_again(uint64_t beginning) {
    if (std::exchange(seen_, beginning) != beginning) run_ = 0;
    if (++run_ < kRun) return false;
    run_ = 0;
    return true;
  }
  /// parse_plain() or parse_plain_datagram() has taken `frame` and given `packet`: predicts the next one. IPv6 has
  /// none.
  void learn(std::span<const std::byte> frame, const Packet& packet) {
    if (packet.ip_version != 4) return forget();
    for (std::size_t i = 0; i < kBlocks; ++i) blocks_[i] = block_at(frame.data(), i);
    sum_ = sum_of(frame.data());
    shared_.learn(frame.data() + kEthernetBytes, 4);
    size_ = frame.size();
    packet_ = packet;
    kind_ = kind_of(packet.bth.opcode);
    payload_at_ = static_cast<uint32_t>(packet.payload.data() - frame.data());
    payload_bytes_ = packet.payload.size();
  }

 private:
  using Block = uint64_t __attribute__((vector_size(16)));
  enum class Extended : uint8_t { none, reth, aeth, atomic, atomic_ack, deth };

  static constexpr std::size_t kBth = kEthernetBytes + kIpv4Bytes + kUdpBytes;
  static constexpr std::size_t kBlocks = 4;
  // Learning costs as much as parsing a packet, and queue pairs that take turns often send two at once.
  static constexpr uint32_t kRun = 3;
  // From Ethernet to the end of the BTH's second word. The last two overlap.
  static constexpr std::size_t kBlockAt[kBlocks] = {0, 16, 32, kBth + 8 - sizeof(Block)};
  static constexpr std::size_t kId = kEthernetBytes + 4;
  static constexpr std::size_t kChecksum = kEthernetBytes + 10;
  static constexpr std::size_t kUdpChecksum = kEthernetBytes + kIpv4Bytes + 6;
  static constexpr uint32_t kAckRequest = 1u << 31;
  static constexpr std::size_t kNone = ~std::size_t{0};  ///< no frame's length: nothing is predicted

  // A little-endian word with ones where bytes count: not in a field of two bytes at byte `at` of the frame.
  static constexpr uint64_t without(std::size_t word_at, std::size_t field) {
    if (field < word_at || field >= word_at + 8) return ~uint64_t{0};
    return ~(uint64_t{0xffff} << 8 * (field - word_at));
  }
  static constexpr uint64_t mask_at(std::size_t word_at) {
    return without(word_at, kId) & without(word_at, kChecksum) & without(word_at, kUdpChecksum);
  }
  static Block block_at(const std::byte* frame, std::size_t i) {
    Block block;
    std::memcpy(&block, frame + kBlockAt[i], sizeof block);
    return block & Block{mask_at(kBlockAt[i]), mask_at(kBlockAt[i] + 8)};
  }
  [[gnu::always_inline]] bool same_headers(const std::byte* frame) const {
    const Block other = (block_at(frame, 0) ^ blocks_[0]) | (block_at(frame, 1) ^ blocks_[1]) |
                        (block_at(frame, 2) ^ blocks_[2]) | (block_at(frame, 3) ^ blocks_[3]);
    return (other[0] | other[1]) == 0;
  }
  // With the same other words, a header's checksum is right where this sum is the same.
  static uint32_t sum_of(const std::byte* frame) {
    uint16_t id = 0, checksum = 0;
    std::memcpy(&id, frame + kId, sizeof id);
    std::memcpy(&checksum, frame + kChecksum, sizeof checksum);
    const uint32_t sum = uint32_t{id} + checksum;
    return (sum & 0xffff) + (sum >> 16);
  }
  static Extended kind_of(Opcode opcode) {
    if (opcode == Opcode::ud_send_only) return Extended::deth;
    if (plain::kWithReth.has(opcode) || opcode == Opcode::rc_read_request) return Extended::reth;
    if (plain::kWithAeth.has(opcode) || opcode == Opcode::rc_ack) return Extended::aeth;
    if (opcode == Opcode::rc_atomic_ack) return Extended::atomic_ack;
    return plain::kWithoutHeader.has(opcode) ? Extended::none : Extended::atomic;
  }
  void read_extended(const std::byte* at) {
    if (kind_ == Extended::reth) {
      packet_.reth = Reth::load(at);
    } else if (kind_ == Extended::aeth) {
      packet_.aeth = Aeth::load(at);
    } else if (kind_ == Extended::deth) {
      packet_.deth = Deth::load(at);
    } else if (kind_ != Extended::none) {
      read_atomic(at);
    }
  }
  void read_atomic(const std::byte* at) {
    if (kind_ == Extended::atomic) {
      packet_.atomic = AtomicEth::load(at);
      return;
    }
    packet_.aeth = Aeth::load(at);
    packet_.atomic_ack = load_be64(at + Aeth::kBytes);
  }

  alignas(16) Block blocks_[kBlocks]{};
  std::size_t size_ = kNone;
  std::size_t payload_bytes_ = 0;
  uint32_t payload_at_ = 0;
  uint32_t sum_ = 0;
  FlowIcrc shared_;
  Extended kind_{};
  uint64_t seen_ = 0;
  uint32_t run_ = 0;  // of frames that begin so
  Packet packet_;
};

}  // namespace uroce::wire
