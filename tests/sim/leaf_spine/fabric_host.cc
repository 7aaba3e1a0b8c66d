#include "tests/sim/leaf_spine/fabric_host.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tests/sim/host.h"
#include "wire/icrc.h"

namespace uroce::sim {
namespace {

constexpr std::size_t kIpSource = 14 + 12, kUdp = 14 + 20;
// As in host.cc: a worker's loop goes round so often.
constexpr Picos kWorkerLoop{200'000};
constexpr uint32_t kCqEntries = 1024;

test::EndpointOptions endpoint_of(const FabricHostOptions& options) {
  test::EndpointOptions endpoint;
  endpoint.engine = options.engine;
  endpoint.gid = gid_of(options.number + 1);
  endpoint.mac = mac_of(options.number);
  endpoint.max_regions = 2;
  endpoint.seed = options.seed;
  return endpoint;
}

}  // namespace

FabricHost::FabricHost(EventQueue& events, PacketPool& pool, const FabricHostOptions& options, SharedPayload& payload,
                       OnDone on_done)
    : events_(events),
      pool_(pool),
      options_(options),
      endpoint_(endpoint_of(options)),
      on_done_(std::move(on_done)),
      cq_(endpoint_.make_cq(kCqEntries)),
      peer_cq_(endpoint_.make_cq(2)) {
  const auto added = endpoint_.regions().add({.pd = 1,
                                              .address = SharedPayload::kAddress,
                                              .length = payload.bytes().size(),
                                              .host = payload.bytes().data(),
                                              .access = AccessFlags(Access::local_write) | Access::remote_write});
  test::require(added.has_value(), "a host's region was refused");
  key_ = *added;
  endpoint_.engine().keep_writes_whole(options.whole_writes);
}

std::unique_ptr<test::TestQp> FabricHost::make_qp() {
  test::require(next_qpn_ < options_.engine.max_qps,
                fmt::format("host {} needs more than its {} queue pairs; choose fewer --peers or a shorter --ms",
                            options_.number, options_.engine.max_qps));
  test::TestQp::Options options;
  options.qpn = next_qpn_++;
  options.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  options.send_cq = &cq_;
  options.recv_cq = &peer_cq_;
  return std::make_unique<test::TestQp>(endpoint_, options);
}

std::size_t FabricHost::room() {
  const std::size_t used = link_->queued_packets();
  refused_ = used >= options_.tx_slots;
  return options_.tx_slots - std::min<std::size_t>(used, options_.tx_slots);
}

void FabricHost::send(std::span<const transport::TxFrame> frames) {
  for (const transport::TxFrame& frame : frames) {
    Packet& packet = pool_.take();
    packet.length = frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes;
    packet.kept = frame.header_length;
    packet.marked = false;
    std::memcpy(packet.head.data(), frame.header.data(), frame.header_length);
    // A SACK's bitmap is payload, and is read. No payload that is longer is.
    if (packet.length <= Packet::kHeadBytes) {
      for (uint8_t i = 0; i < frame.payload_spans; ++i) {
        std::memcpy(packet.head.data() + packet.kept, frame.payload[i].data, frame.payload[i].length);
        packet.kept += frame.payload[i].length;
      }
    }
    packet.to = load_be16(packet.head.data() + 4);
    packet.flow_key = load_be64(packet.head.data() + kIpSource) ^ uint64_t { load_be16(packet.head.data() + kUdp) }
                                                                      << 16;
    ++sent_;
    link_->send(packet);
  }
}

void FabricHost::receive(Packet& packet, uint32_t) {
  // Hosts take turns, so that one place is enough for the frame in one piece. Its payload is what stood there before.
  alignas(64) static std::array<std::byte, FabricFrame::kMaxBytes> place;
  std::memcpy(place.data(), packet.head.data(), packet.kept);
  const transport::RxFrame frame{.bytes = {place.data(), packet.length}, .lacks_icrc = true};
  ++received_;
  received_marked_ += packet.marked;
  received_bytes_ += packet.length;
  pool_.give_back(packet);
  endpoint_.engine().on_frames({&frame, 1}, events_.now_nanos());
  run();
}

// The engine goes on once half of the ring is free, as one does that is woken by bursts.
void FabricHost::on_left(const Packet&, uint32_t) {
  if (refused_ && link_->queued_packets() <= options_.tx_slots / 2) wake_at(events_.now());
}

bool FabricHost::take_completions() {
  bool any = false;
  while (const auto cqe = cq_.poll()) {
    any = true;
    on_done_(cqe->wr_id, static_cast<WcStatus>(cqe->status));
  }
  return any;
}

void FabricHost::run() {
  const Nanos now = events_.now_nanos();
  bool busy = true;
  for (int turn = 0; busy; ++turn) {
    test::require(turn < 100'000, "an engine works without end at one moment");
    refused_ = false;
    busy = endpoint_.engine().poll(*this, now);
    busy |= take_completions();
  }
  const Nanos deadline = endpoint_.engine().next_deadline();
  // Room in the ring wakes a host that was refused.
  if (deadline == kNever || (refused_ && deadline <= now)) return;
  wake_at(deadline <= now ? events_.now() + kWorkerLoop : std::chrono::duration_cast<Picos>(deadline));
}

// One event waits at a time; an earlier one takes its place, and the later one finds that it is too early.
void FabricHost::wake_at(Picos at) {
  if (at >= wake_at_) return;
  wake_at_ = at;
  events_.schedule(at, *this);
}

void FabricHost::on_event(uint64_t) {
  if (events_.now() < wake_at_) return;
  wake_at_ = Picos::max();
  run();
}

}  // namespace uroce::sim
