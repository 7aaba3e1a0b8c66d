// The headers that several frames share. Making them once and copying them costs less than making them anew.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/psn.h"
#include "transport/core/frame_builder.h"
#include "wire/ethernet.h"
#include "wire/flow_icrc.h"

namespace uroce::transport {

class alignas(64) FrameTemplate {
 public:
  /// Makes the template for packets of `payload` bytes, in one span if there are any. `flags`: neither an ACK request
  /// nor a copy.
  void make(const FrameBuilder::Destination& to, wire::Opcode opcode, std::size_t extended, uint32_t payload,
            BthFlags flags) {
    frame_.payload_length = payload;
    frame_.payload_spans = payload == 0 ? 0 : 1;
    kind_ = kind_of(opcode, payload);
    FrameBuilder::write_headers(frame_, to, opcode, Psn(0), extended, flags);
    psn_at_ = static_cast<uint8_t>(to.route.length + kPsnOffset);
    frame_.icrc_at = psn_at_;
    seal_ = uint32_t{flags.seal.lower} << 24;
    std::memcpy(&shape_, &frame_.header_length, sizeof shape_);
    icrc_.learn(frame_.header.data() + frame_.l3_offset, frame_.ip_version);
    ipv4_at_ = 0;
    if (frame_.ip_version == 4) {
      ipv4_at_ = frame_.l3_offset;
      uint16_t checksum = 0;
      std::memcpy(&checksum, frame_.header.data() + frame_.l3_offset + kChecksumOffset, sizeof checksum);
      sum_ = static_cast<uint16_t>(~checksum);
    }
  }
  /// Of one that was made: from Ethernet on, for what all such packets have besides.
  std::byte* headers() { return frame_.header.data(); }
  std::byte* extended_headers() { return headers() + psn_at_ + sizeof(uint32_t); }
  /// Nothing is made.
  void clear() { kind_ = seen_ = 0; }
  /// Another turn begins. A template of the same `owner` and `path` stays. Call clear() where other things change that
  /// its headers have.
  void begin(const void* owner, uint32_t path) {
    if (owner_ == owner && path_ == path) [[likely]]
      return;
    owner_ = owner;
    path_ = path;
    clear();
  }
  /// Was such a packet asked for before, by the same owner, and not made? Then it is likely to come again.
  bool comes_again(wire::Opcode opcode, uint32_t payload) {
    return std::exchange(seen_, kind_of(opcode, payload)) == kind_of(opcode, payload);
  }
  /// Is it made, for packets of that kind with so many bytes of payload?
  bool is_for(wire::Opcode opcode, uint32_t payload) const { return kind_ == kind_of(opcode, payload); }

  /// Writes what FrameBuilder::write_headers() would, and what the template has besides. Returns where the extended
  /// headers go.
  std::byte* write(TxFrame& frame, Psn psn, bool ack_request) const {
    std::byte* const header = frame.header.data();
    // In blocks that the compiler copies by vector registers.
    std::memcpy(header, frame_.header.data(), 32);
    std::memcpy(header + 32, frame_.header.data() + 32, 32);
    std::memcpy(header + 64, frame_.header.data() + 64, kMost - 64);
    std::memcpy(&frame.header_length, &shape_, sizeof shape_);
    uint16_t ip_id = 0;
    if (ipv4_at_ != 0) {
      std::byte* const ip = header + ipv4_at_;
      ip_id = static_cast<uint16_t>(psn.value());
      const uint16_t id = __builtin_bswap16(ip_id);
      const auto checksum = static_cast<uint16_t>(~wire::fold(uint32_t{sum_} + id));
      std::memcpy(ip + kIdOffset, &id, sizeof id);
      std::memcpy(ip + kChecksumOffset, &checksum, sizeof checksum);
    }
    frame.icrc = icrc_.at(ip_id);
    store_be32(header + psn_at_, (ack_request ? kAckRequest : 0) | seal_ | psn.value());
    return header + psn_at_ + sizeof(uint32_t);
  }

 private:
  static constexpr uint64_t kind_of(wire::Opcode opcode, uint32_t payload) {
    return static_cast<uint64_t>(opcode) << 32 | payload;
  }
  static constexpr std::size_t kMost = 96;  // IPv6 with a tag, BTH and RETH
  static_assert(kMost >= sizeof(wire::RouteTemplate::bytes) + wire::kBthBytes + wire::kRethBytes);
  // In an IPv4 header, and in a BTH.
  static constexpr std::size_t kIdOffset = 4;
  static constexpr std::size_t kChecksumOffset = 10;
  static constexpr uint32_t kPsnOffset = wire::FlowIcrc::kSharedOfBth;
  static constexpr uint32_t kAckRequest = 1u << 31;

  // A cache line has all but the headers.
  uint64_t kind_ = 0;  // opcode, which is not 0, and length; 0: nothing is made
  uint64_t seen_ = 0;  // likewise, of comes_again()
  const void* owner_ = nullptr;
  uint32_t path_ = 0;
  uint32_t seal_ = 0;    // in the BTH's last word
  uint8_t psn_at_ = 0;   // that word
  uint8_t ipv4_at_ = 0;  // the IPv4 header; 0: there is none
  uint16_t sum_ = 0;     // its ones'-complement sum with the id 0
  uint64_t shape_ = 0;   // of a TxFrame, from the length of the headers to `icrc_at`, in one copy
  static_assert(offsetof(TxFrame, icrc_at) + sizeof(uint8_t) == offsetof(TxFrame, header_length) + sizeof shape_);
  wire::FlowIcrc icrc_;
  alignas(64) TxFrame frame_{};
};

}  // namespace uroce::transport
