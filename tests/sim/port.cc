#include "tests/sim/port.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "tests/support/memory.h"

namespace uroce::sim {
namespace {

constexpr uint8_t kEcnMask = 3;

// RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
void update_ipv4_checksum(std::byte* ip, uint16_t before, uint16_t after) {
  uint32_t sum =
      static_cast<uint16_t>(~load_be16(ip + 10)) + static_cast<uint32_t>(static_cast<uint16_t>(~before)) + after;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be16(ip + 10, static_cast<uint16_t>(~sum));
}

}  // namespace

bool mark_congestion(std::span<std::byte> frame) {
  constexpr uint16_t kVlan = 0x8100, kIpv4 = 0x0800;
  uint16_t type = load_be16(frame.data() + 12);
  std::byte* ip = frame.data() + 14;
  if (type == kVlan) {
    type = load_be16(frame.data() + 16);
    ip += 4;
  }
  const uint16_t before = load_be16(ip);
  // IPv6 has its traffic class in bits 4 to 11 of the first word, IPv4 in the second byte.
  const uint32_t shift = type == kIpv4 ? 0 : 4;
  if ((before >> shift & kEcnMask) == 0) return false;
  const auto after = static_cast<uint16_t>(before | kEcnMask << shift);
  store_be16(ip, after);
  if (type == kIpv4) update_ipv4_checksum(ip, before, after);
  return true;
}

Port::Port(EventQueue& events, const PortOptions& options, Receiver& far_end)
    : events_(events),
      options_(options),
      far_end_(far_end),
      picos_per_byte_(8000.0 / options.gbps),
      loss_(options.impairments, time_of(FabricFrame::kMaxBytes), options.seed),
      random_(options.seed ^ 0xec9) {
  if (options.impairments.reorder == 0) return;
  const Picos hold_max = options.impairments.reorder * time_of(FabricFrame::kMaxBytes);
  Exit& exit = *this;
  reorderer_.emplace(events, options.impairments, hold_max, exit, options.seed ^ 0x0ede);
}

Picos Port::time_of(uint32_t bytes) const { return Picos(std::llround((bytes + kLinkOverhead) * picos_per_byte_)); }

void Port::count_out() {
  while (!leaving_.empty() && leaving_.front().at <= events_.now()) {
    queued_ -= leaving_.front().bytes;
    leaving_.pop_front();
  }
}

uint64_t Port::queued_bytes() {
  count_out();
  return queued_;
}

std::size_t Port::queued_frames() {
  count_out();
  return leaving_.size();
}

bool Port::marks_at(uint64_t queued) {
  const EcnMarking& ecn = options_.ecn;
  if (ecn.kmax == 0 || queued <= ecn.kmin) return false;
  if (queued > ecn.kmax) return true;
  return random_.chance(ecn.pmax * static_cast<double>(queued - ecn.kmin) / static_cast<double>(ecn.kmax - ecn.kmin));
}

void Port::receive(FramePtr frame) {
  count_out();
  if (queued_ + frame->length > options_.queue_bytes) {
    ++counters_.queue_drops;
    say("overflows", *frame);
    return;
  }
  if (marks_at(queued_) && mark_congestion(frame->bytes())) {
    ++counters_.marked;
    say("marks", *frame);
  }
  queued_ += frame->length;
  ++counters_.frames;
  counters_.bytes += frame->length;
  counters_.max_queued = std::max(counters_.max_queued, queued_);
  busy_until_ = std::max(busy_until_, static_cast<double>(events_.now().count())) +
                (frame->length + kLinkOverhead) * picos_per_byte_;
  const Picos left(std::llround(busy_until_));
  leaving_.push_back({left, frame->length});
  if (loss_.loses(left)) {
    ++counters_.lost;
    say("loses", *frame);
    return;
  }
  in_flight_.push_back(std::move(frame));
  events_.schedule(left + options_.delay, *this);
}

void Port::on_event(uint64_t) {
  FramePtr frame = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (reorderer_) {
    reorderer_->enter(std::move(frame));
  } else {
    far_end_.receive(std::move(frame));
  }
}

}  // namespace uroce::sim
