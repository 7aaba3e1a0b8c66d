#include "tests/sim/host.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/packet_sender.h"
#include "wire/packet.h"

namespace uroce::sim {
namespace {

// Hosts of the fabric use untagged IPv4.
constexpr std::size_t kBthOffset = 14 + 20 + 8;
// An engine that has work, and room for it, and yet rests is looked at again as often as a worker's loop goes round.
constexpr Picos kLoop{200'000};

test::EndpointOptions endpoint_options(const HostOptions& options) {
  test::EndpointOptions endpoint;
  endpoint.engine = options.engine;
  endpoint.gid = gid_of(options.number);
  endpoint.mac = mac_of(options.number);
  endpoint.max_regions = options.regions;
  endpoint.seed = options.seed;
  return endpoint;
}

}  // namespace

Host::Host(EventQueue& events, FramePool& pool, const HostOptions& options, Receiver& wire,
           const std::vector<FlowMeter*>& meters)
    : events_(events),
      pool_(pool),
      options_(options),
      name_(fmt::format("host {}", options.number)),
      meters_(meters),
      endpoint_(endpoint_options(options)),
      port_(events, options.port, wire) {
  if (options.faults.empty()) return;
  const std::string device = fmt::format("host{}", options.number);
  faults::QpView* const view = this;
  faults_ =
      std::make_unique<faults::FrameFaults>(options.faults, device, FabricFrame::kMaxBytes, fault_counters_, view);
}

std::size_t Host::room() {
  const std::size_t used = port_.queued_frames();
  refused_ = used >= options_.tx_slots;
  return options_.tx_slots - std::min<std::size_t>(used, options_.tx_slots);
}

// Of the flow that a packet with payload belongs to. Payload of UD and of CNPs and their like is not metered.
FlowMeter* Host::meter_of(const std::byte* bth) const {
  const wire::OpFlags flags = wire::info(static_cast<wire::Opcode>(load8(bth))).flags;
  if (!flags.has(wire::Op::payload) || load8(bth) >= 0x20) return nullptr;
  const uint32_t qpn = load_be24(bth + 5);
  return qpn < meters_.size() ? meters_[qpn] : nullptr;
}

void Host::send(std::span<const transport::TxFrame> frames) {
  for (const transport::TxFrame& sent : frames) {
    FramePtr frame = pool_.take();
    frame->length = static_cast<uint32_t>(test::serialize_to(sent, frame->storage));
    if (trace_ != nullptr) trace_->line(name_, "sends", *frame);
    const std::byte* const bth = frame->storage.data() + kBthOffset;
    if (FlowMeter* meter = meter_of(bth); meter != nullptr) meter->on_sent(Psn(load_be24(bth + 9)));
    if (faults_ == nullptr || faults_->take(faults::Way::tx, frame->bytes(), events_.now_nanos())) {
      port_.receive(std::move(frame));
    }
  }
}

void Host::receive(FramePtr frame) {
  if (faults_ == nullptr || faults_->take(faults::Way::rx, frame->bytes(), events_.now_nanos())) deliver(*frame);
  run();
}

std::optional<uint32_t> Host::sender_of(faults::Way way, const wire::Packet& packet) {
  return control::sender_of(endpoint_.engine(), way == faults::Way::tx, packet);
}

void Host::take_fault_turn() {
  const Nanos now = events_.now_nanos();
  for (const faults::Way way : {faults::Way::tx, faults::Way::rx}) {
    faults_->release(way, now, [&](std::span<const std::byte> bytes) {
      FramePtr frame = pool_.take();
      frame->length = static_cast<uint32_t>(bytes.size());
      std::ranges::copy(bytes, frame->storage.begin());
      if (way == faults::Way::rx) {
        deliver(*frame);
      } else {
        port_.receive(std::move(frame));
      }
      return true;
    });
  }
  for (const uint32_t qpn : faults_->take_ended()) {
    endpoint_.engine().run([qpn](transport::Engine& engine) { (void)control::end_qp(engine, qpn); }, now);
  }
}

void Host::deliver(const FabricFrame& arrived) {
  const FabricFrame* const frame = &arrived;
  if (trace_ != nullptr) trace_->line(name_, "receives", *frame);
  if (FlowMeter* meter = meter_of(frame->storage.data() + kBthOffset); meter != nullptr) {
    const auto packet = wire::parse(frame->bytes(), wire::Icrc::skip);
    test::require(packet.has_value(), "a frame that an engine sent does not parse");
    meter->on_received(packet->bth.psn, static_cast<uint32_t>(packet->payload.size()), events_.now());
  }
  const transport::RxFrame rx{.bytes = frame->bytes()};
  endpoint_.engine().on_frames({&rx, 1}, events_.now_nanos());
}

void Host::run() {
  const Nanos now = events_.now_nanos();
  bool busy = true;
  for (int turn = 0; busy; ++turn) {
    test::require(turn < 100'000, "an engine and its application work without end at one moment");
    refused_ = false;
    if (faults_ != nullptr) take_fault_turn();
    busy = endpoint_.engine().poll(*this, now);
    if (application_ != nullptr) busy |= application_->work(now);
  }
  Nanos deadline = endpoint_.engine().next_deadline();
  if (faults_ != nullptr) deadline = std::min(deadline, faults_->due());
  if (refused_) wake_at(port_.next_departure());
  if (deadline == kNever || (refused_ && deadline <= now)) return;
  wake_at(deadline <= now ? events_.now() + kLoop : std::chrono::duration_cast<Picos>(deadline));
}

// One event waits at a time; an earlier one takes its place, and the later one finds that it is too early.
void Host::wake_at(Picos at) {
  if (at >= wake_at_) return;
  wake_at_ = at;
  events_.schedule(at, *this);
}

void Host::on_event(uint64_t) {
  if (events_.now() < wake_at_) return;
  wake_at_ = Picos::max();
  run();
}

}  // namespace uroce::sim
