// Builds one burst of frames. All memory is allocated once.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/psn.h"
#include "transport/core/seam.h"
#include "transport/core/work.h"
#include "wire/packet.h"
#include "wire/recovery.h"

namespace uroce::transport {

struct BthFlags {
  bool ack_request = false;
  bool solicited = false;
  bool becn = false;
  uint8_t copy = 0;  ///< wire::copy_of(); of sealed frames
  uint8_t ecn = 0;   ///< 2 bits; 0: as in the route
  wire::Seal seal{};
};

class FrameBuilder {
 public:
  /// `udp_ports`, a power of two: the UDP source ports that a QP's packets may be sprayed over.
  FrameBuilder(uint32_t burst, uint32_t udp_ports)
      : frames_(burst), spans_(std::size_t{burst} * kMaxSge), scratch_(burst), spray_mask_(udp_ports - 1) {}

  /// Starts a burst of at most `room` frames. begin_turn() comes next.
  void begin(std::size_t room) {
    used_ = 0;
    bytes_ = 0;
    limit_ = room < frames_.size() ? room : frames_.size();
  }
  /// Starts a queue pair's turn in the burst. It ends when the burst is full or `allowance` (work.h) is used up; the
  /// last frame may go beyond it.
  void begin_turn(uint32_t allowance = work::kUnlimited) {
    work_ = 0;
    allowance_ = allowance;
    turn_end_ = limit_;
  }
  /// The turn is over.
  bool full() const { return used_ == turn_end_; }
  bool burst_full() const { return used_ == limit_; }
  /// The turn's work so far.
  uint32_t work() const { return work_; }
  /// Gives up room for one frame of the burst.
  void forgo() {
    --limit_;
    turn_end_ = limit_;
    add_work(work::kFrame);
  }
  /// The burst ends with the frames that it has.
  void end_burst() { limit_ = turn_end_ = used_; }
  std::span<const TxFrame> frames() const { return {frames_.data(), used_}; }
  /// The bytes of the burst's frames, from Ethernet to ICRC.
  uint64_t bytes() const { return bytes_; }

  /// The next frame and where its extended headers go. Payload spans are added by add_payload(), in order; then
  /// finish() writes everything below them.
  TxFrame& next() {
    TxFrame& frame = frames_[used_];
    frame.payload = spans_.data() + used_ * kMaxSge;
    frame.payload_length = 0;
    frame.payload_spans = 0;
    frame.copy_payload = false;
    frame.raw = false;
    return frame;
  }
  /// The same with `length` bytes of payload, at least one, in one piece.
  TxFrame& next(const std::byte* payload, uint32_t length) {
    TxFrame& frame = frames_[used_];
    PayloadSpan* const span = spans_.data() + used_ * kMaxSge;
    *span = {payload, length};
    frame.payload = span;
    frame.payload_length = length;
    frame.payload_spans = 1;
    frame.copy_payload = false;
    frame.raw = false;
    return frame;
  }
  static std::byte* extended_headers(TxFrame& frame, const wire::RouteTemplate& route) {
    return frame.header.data() + route.length + wire::Bth::kBytes;
  }
  /// `data` stays readable as seam.h says; at most kMaxSge per frame.
  void add_payload(TxFrame& frame, const std::byte* data, uint32_t length) {
    if (length == 0) return;
    PayloadSpan& span = spans_[used_ * kMaxSge + frame.payload_spans++];
    span = {data, length};
    frame.payload_length += length;
  }
  /// Memory for payload that the engine itself makes; valid as long as the frame.
  static constexpr std::size_t kScratchBytes = 160;
  std::byte* scratch() { return scratch_[used_].data(); }
  /// How a packet's UDP source port differs from its QP's when packets are sprayed over several paths.
  uint16_t spray(Psn psn) const { return static_cast<uint16_t>(psn.value() & spray_mask_); }
  /// Where a frame goes: the QP's peer, or the destination of one datagram.
  struct Destination {
    const wire::RouteTemplate& route;
    uint32_t qpn;
    uint16_t udp_source;
    uint16_t pkey;
    bool loopback;
  };
  /// Writes all headers in front of `extended` bytes of extended headers, and adds the frame to the burst.
  void finish(TxFrame& frame, const Destination& to, wire::Opcode opcode, Psn psn, std::size_t extended,
              BthFlags flags = {}) {
    write_headers(frame, to, opcode, psn, extended, flags);
    add(frame);
  }
  static void write_headers(TxFrame& frame, const Destination& to, wire::Opcode opcode, Psn psn, std::size_t extended,
                            BthFlags flags);
  /// Adds `frame`, whose headers are written, to the burst.
  void add(const TxFrame& frame) {
    ++used_;
    bytes_ += frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes;
    add_work(work::kFrame + frame.payload_length);
  }
  /// Are packets of one queue pair sprayed over several paths?
  bool sprays() const { return spray_mask_ != 0; }
  /// Adds a raw frame: `head_length` bytes stand in its header, the rest has been added as payload. `loopback`: it is
  /// for the QP `receiver` of this device, 0 for none.
  void finish_raw(TxFrame& frame, uint32_t head_length, bool loopback, uint32_t receiver);

 private:
  void add_work(uint32_t added) {
    work_ += added;
    if (work_ >= allowance_) turn_end_ = used_;
  }

  std::vector<TxFrame> frames_;
  std::vector<PayloadSpan> spans_;
  std::vector<std::array<std::byte, kScratchBytes>> scratch_;
  uint32_t spray_mask_;
  std::size_t used_ = 0;
  uint64_t bytes_ = 0;
  std::size_t limit_ = 0;
  std::size_t turn_end_ = 0;  // limit_, or used_ when the turn is over
  uint32_t work_ = 0;
  uint32_t allowance_ = work::kUnlimited;
};

inline void FrameBuilder::write_headers(TxFrame& frame, const Destination& to, wire::Opcode opcode, Psn psn,
                                        std::size_t extended, BthFlags flags) {
  const wire::RouteTemplate& route = to.route;
  frame.pad = static_cast<uint8_t>(-frame.payload_length & 3u);
  const std::size_t l4 = wire::Bth::kBytes + extended + frame.payload_length + frame.pad + wire::kIcrcBytes;
  // The IPv4 id may be anything under DF (RFC 6864, 4.1); the PSN needs no state.
  wire::write_l2_to_l4(frame.header.data(), route, to.udp_source, l4, static_cast<uint16_t>(psn.value()), false,
                       flags.ecn);
  wire::Bth bth;
  bth.opcode = opcode;
  bth.solicited = flags.solicited;
  bth.pad = frame.pad;
  bth.pkey = to.pkey;
  bth.dest_qpn = to.qpn;
  bth.ack_request = flags.ack_request;
  bth.reserved6 = flags.seal.upper;
  bth.reserved7 = flags.seal.lower | flags.copy;
  bth.becn = flags.becn;
  bth.psn = psn;
  bth.store(frame.header.data() + route.length);
  frame.header_length = static_cast<uint16_t>(route.length + wire::Bth::kBytes + extended);
  frame.l3_offset = route.l3_offset;
  frame.ip_version = route.ip_version;
  frame.loopback = to.loopback;
  frame.icrc_at = 0;
}

inline void FrameBuilder::finish_raw(TxFrame& frame, uint32_t head_length, bool loopback, uint32_t receiver) {
  frame.raw = true;
  frame.raw_receiver = receiver;
  frame.header_length = static_cast<uint16_t>(head_length);
  frame.pad = 0;
  frame.l3_offset = 0;
  frame.ip_version = 0;
  frame.loopback = loopback;
  add(frame);
  bytes_ -= wire::kIcrcBytes;  // it has none
}

}  // namespace uroce::transport
