// The headers that several frames of a turn share. Making them once and copying them costs less than making them anew.
#pragma once

#include <cstddef>
#include <cstring>

#include "base/bytes.h"
#include "base/psn.h"
#include "transport/core/frame_builder.h"
#include "wire/ethernet.h"

namespace uroce::transport {

class FrameTemplate {
 public:
  /// Makes the template for packets of `payload` bytes, in one span if there are any. `flags`: neither an ACK request
  /// nor a copy.
  void make(const FrameBuilder::Destination& to, wire::Opcode opcode, std::size_t extended, uint32_t payload,
            BthFlags flags) {
    frame_.payload_length = payload;
    frame_.payload_spans = payload == 0 ? 0 : 1;
    kind_ = kind_of(opcode, payload);
    FrameBuilder::write_headers(frame_, to, opcode, Psn(0), extended, flags);
    psn_at_ = to.route.length + std::size_t{kPsnOffset};
    seal_ = uint32_t{flags.seal.lower} << 24;
    if (frame_.ip_version == 4) {
      uint16_t checksum = 0;
      std::memcpy(&checksum, frame_.header.data() + frame_.l3_offset + kChecksumOffset, sizeof checksum);
      sum_ = static_cast<uint16_t>(~checksum);
    }
  }
  /// Another turn begins: nothing is made.
  void clear() { kind_ = 0; }
  /// Is it made, for packets of that kind with so many bytes of payload?
  bool is_for(wire::Opcode opcode, uint32_t payload) const { return kind_ == kind_of(opcode, payload); }

  /// Writes what FrameBuilder::write_headers() would. Returns where the extended headers go.
  std::byte* write(TxFrame& frame, Psn psn, bool ack_request) const {
    std::byte* const header = frame.header.data();
    // In blocks that the compiler copies by vector registers.
    std::memcpy(header, frame_.header.data(), 32);
    std::memcpy(header + 32, frame_.header.data() + 32, 32);
    std::memcpy(header + 64, frame_.header.data() + 64, kMost - 64);
    std::memcpy(&frame.header_length, &frame_.header_length, kShapeBytes);
    if (frame_.ip_version == 4) {
      std::byte* const ip = header + frame_.l3_offset;
      const uint16_t id = __builtin_bswap16(static_cast<uint16_t>(psn.value()));
      const auto checksum = static_cast<uint16_t>(~wire::fold(uint32_t{sum_} + id));
      std::memcpy(ip + kIdOffset, &id, sizeof id);
      std::memcpy(ip + kChecksumOffset, &checksum, sizeof checksum);
    }
    store_be32(header + psn_at_, (ack_request ? kAckRequest : 0) | seal_ | psn.value());
    return header + psn_at_ + sizeof(uint32_t);
  }

 private:
  static constexpr uint64_t kind_of(wire::Opcode opcode, uint32_t payload) {
    return static_cast<uint64_t>(opcode) << 32 | payload;
  }
  static constexpr std::size_t kMost = 96;  // IPv6 with a tag, BTH and RETH
  static_assert(kMost >= sizeof(wire::RouteTemplate::bytes) + wire::kBthBytes + wire::kRethBytes);
  // From the length of the headers to `raw`, in one copy.
  static constexpr std::size_t kShapeBytes = 8;
  static_assert(offsetof(TxFrame, raw) + sizeof(bool) == offsetof(TxFrame, header_length) + kShapeBytes);
  // In an IPv4 header, and in a BTH.
  static constexpr std::size_t kIdOffset = 4;
  static constexpr std::size_t kChecksumOffset = 10;
  static constexpr std::size_t kPsnOffset = 8;
  static constexpr uint32_t kAckRequest = 1u << 31;

  TxFrame frame_{};
  uint64_t kind_ = 0;       // opcode, which is not 0, and length; 0: nothing is made
  std::size_t psn_at_ = 0;  // the BTH's last word
  uint32_t seal_ = 0;       // in that word
  uint16_t sum_ = 0;        // IPv4: ones'-complement sum of the header with the id 0
};

}  // namespace uroce::transport
