// Raw packets and receive rules beside RC traffic, over a faulty network: each frame that arrives comes whole to the
// queue pair of its rule and to no other, sniffers see all, and neither kind of traffic harms the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "tests/sim/world.h"
#include "wire/ethernet.h"

namespace uroce::test {
namespace {

constexpr uint32_t kFrames = 300;
constexpr uint32_t kFrameStride = 1514;  // longest frame, in the source and in a receive
constexpr uint32_t kHeaders = wire::kEthernetBytes + 28;
constexpr uint32_t kSlots = 1024;
constexpr uint16_t kPort = 7000;
constexpr uint32_t kPortTag = 0x77;

struct RawCase {
  FaultRates rates;
  uint32_t receives;  // kept posted for each rule
  const char* name;
};

/// One queue pair that a rule gives frames to.
struct Receiver {
  TestQp* qp = nullptr;
  TestCq* cq = nullptr;
  TestRegion* inbox = nullptr;
  std::shared_ptr<transport::FlowCounts> counts = std::make_shared<transport::FlowCounts>();
  uint64_t next_receive = 0;
  uint64_t next_done = 0;
};

// Each frame has its own place in the source, and its number behind the headers.
class RawTraffic {
 public:
  RawTraffic(const RawCase& plan, World& world, uint64_t seed)
      : plan_(plan), random_(seed), world_(world), from_(world.host(0)), to_(world.host(1)) {
    cq_ = &from_.make_cq(64);
    sender_ = &from_.make_qp({.qpn = 0x40, .type = QpType::raw_packet, .send_cq = cq_});
    sender_->connect({}, {});
    source_ = &from_.make_region(kFrames * kFrameStride, Access::local_write);
    for (uint32_t i = 0; i < kFrames; ++i) write_frame(i);
    FlowRule port{.layers = FlowLayer::ipv4, .tag = kPortTag};
    port.layers |= FlowLayer::udp;
    port.value.destination_port = kPort;
    port.mask.destination_port = 0xffff;
    add_receiver(port_, 0x50, port);
    add_receiver(others_, 0x51, {.type = FlowType::all_default});
    add_receiver(sniffer_, 0x52, {.type = FlowType::sniffer});
    world_.network().set_watch([this](std::size_t host, const Frame&) { sent_by_receiver_ += host; });
  }

  void step() {
    for (uint64_t burst = random_.below(4); burst > 0 && posted_ < kFrames && post(); --burst) continue;
    while (const auto cqe = cq_->poll()) {
      EXPECT_EQ(cqe->wr_id, completed_++);
      EXPECT_EQ(cqe->status, static_cast<uint8_t>(WcStatus::success));
    }
    take(port_, [this](std::span<const std::byte> frame) { check(frame, true); });
    take(others_, [this](std::span<const std::byte> frame) { check(frame, false); });
    take(sniffer_, [](std::span<const std::byte>) {});
  }
  /// Posts and takes the rest, once the world rests.
  void finish() {
    Network& network = world_.network();
    while (completed_ < kFrames || network.next_event() != kNever) {
      step();
      network.run(0);
      network.advance_to(std::min(network.next_event(), network.now() + Nanos(1000)));
      if (testing::Test::HasFailure()) return;
    }
    step();
    EXPECT_TRUE(from_.guards_intact() && to_.guards_intact());
  }

  std::size_t received() const { return times_.size(); }
  bool each_once() const {
    return std::ranges::all_of(times_, [](const auto& frame) { return frame.second == 1; });
  }
  bool in_order() const { return in_order_; }
  uint64_t given() const { return port_.counts->packets.get() + others_.counts->packets.get(); }
  uint64_t sniffed() const { return sniffer_.counts->packets.get(); }
  uint64_t sent_by_receiver() const { return sent_by_receiver_; }

 private:
  void add_receiver(Receiver& receiver, uint32_t qpn, const FlowRule& rule) {
    receiver.cq = &to_.make_cq(kSlots);
    TestQp::Options options{.qpn = qpn, .type = QpType::raw_packet, .recv_cq = receiver.cq};
    options.cap.max_recv_wr = plan_.receives;
    receiver.qp = &to_.make_qp(options);
    receiver.qp->connect({}, {});
    receiver.inbox = &to_.make_region(std::size_t{kSlots} * kFrameStride, Access::local_write);
    const transport::FlowEntry entry{.id = qpn,
                                     .qpn = qpn,
                                     .type = rule.type,
                                     .tag = rule.tag,
                                     .pattern = wire::make_pattern(rule).value(),
                                     .counts = receiver.counts};
    require(to_.engine().flows().add(entry), "the engine takes no rule");
    refill(receiver);
  }

  void write_frame(uint32_t i) {
    std::byte* at = source_->bytes().data() + std::size_t{i} * kFrameStride;
    const auto kind = random_.below(3);  // the rule's port, another port, no IP
    std::ranges::copy(std::as_bytes(std::span(to_.options().mac.bytes)), at);
    std::ranges::copy(std::as_bytes(std::span(from_.options().mac.bytes)), at + 6);
    store_be16(at + 12, kind == 2 ? 0x88b5 : wire::kEthertypeIpv4);
    std::byte* ip = at + wire::kEthernetBytes;
    std::fill_n(ip, 28, std::byte{0});
    ip[0] = std::byte{0x45};
    ip[8] = std::byte{64};
    ip[9] = std::byte{wire::kProtocolUdp};
    store_be16(ip + 20, 1234);
    store_be16(ip + 22, kind == 0 ? kPort : kPort + 1);
    store_be32(at + kHeaders, i);
    lengths_.push_back(static_cast<uint32_t>(kHeaders + 4 + random_.below(kFrameStride - kHeaders - 3)));
    for_port_.push_back(kind == 0);
  }

  bool post() {
    const uint32_t i = posted_;
    const uint64_t at = uint64_t{i} * kFrameStride;
    const auto cut = static_cast<uint32_t>(random_.below(lengths_[i] + 1));
    const std::array<Sge, 2> sges{source_->sge(at, cut), source_->sge(at + cut, lengths_[i] - cut)};
    if (!sender_->post_send({.wr_id = i, .flags = SendFlag::signaled, .sges = sges})) return false;
    ++posted_;
    return true;
  }

  void refill(Receiver& receiver) {
    while (receiver.next_receive - receiver.next_done < plan_.receives) {
      const Sge sge = receiver.inbox->sge(receiver.next_receive % kSlots * kFrameStride, kFrameStride);
      if (!receiver.qp->post_recv({.wr_id = receiver.next_receive, .sges = {&sge, 1}})) return;
      ++receiver.next_receive;
    }
  }

  template <class Check>
  void take(Receiver& receiver, Check check) {
    while (const auto cqe = receiver.cq->poll()) {
      ASSERT_EQ(cqe->status, static_cast<uint8_t>(WcStatus::success));
      EXPECT_EQ(cqe->wr_id, receiver.next_done++) << "receives are used in order";
      EXPECT_EQ(cqe->flow_tag, &receiver == &port_ ? kPortTag : 0);
      check(receiver.inbox->bytes().subspan(cqe->wr_id % kSlots * kFrameStride, cqe->byte_len));
    }
    refill(receiver);
  }

  void check(std::span<const std::byte> frame, bool for_port) {
    ASSERT_GE(frame.size(), kHeaders + 4);
    const uint32_t i = load_be32(frame.data() + kHeaders);
    ASSERT_LT(i, posted_);
    EXPECT_EQ(for_port_[i], for_port) << "frame " << i;
    ASSERT_EQ(frame.size(), lengths_[i]) << "frame " << i;
    EXPECT_TRUE(std::ranges::equal(frame, source_->bytes().subspan(std::size_t{i} * kFrameStride, lengths_[i])))
        << "frame " << i;
    uint32_t& newest = newest_[for_port];
    if (i < newest) in_order_ = false;
    newest = std::max(newest, i);
    ++times_[i];
  }

  RawCase plan_;
  Random random_;
  World& world_;
  TestEndpoint &from_, &to_;
  TestCq* cq_ = nullptr;
  TestQp* sender_ = nullptr;
  TestRegion* source_ = nullptr;
  Receiver port_, others_, sniffer_;
  std::vector<uint32_t> lengths_;
  std::vector<bool> for_port_;
  uint32_t posted_ = 0;
  uint64_t completed_ = 0;
  std::map<uint32_t, uint32_t> times_;  // that a frame came
  std::array<uint32_t, 2> newest_{};
  bool in_order_ = true;
  uint64_t sent_by_receiver_ = 0;
};

class RawPackets : public testing::TestWithParam<RawCase> {};

TEST_P(RawPackets, ComeWholeToTheirRuleBesideRcTraffic) {
  const RawCase& plan = GetParam();
  const FaultRates& rates = plan.rates;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    WorldOptions options;
    options.seed = seed;
    options.xrc = seed % 2 == 0;
    options.retransmission = {Retransmission::automatic, Retransmission::automatic};
    options.flow.max_message = 4096;
    RandomFaults faults(rates, seed ^ 0xfa17);
    World world(options, faults);
    RawTraffic raw(plan, world, seed);
    world.set_after_events([&raw] { raw.step(); });
    ASSERT_EQ(world.run_random(200, [] {}), "");
    ASSERT_FALSE(world.failed()) << world.failures();
    raw.finish();
    if (HasFailure()) return;
    if (rates.drop == 0 && plan.receives >= 32) {
      EXPECT_EQ(raw.received(), kFrames);
    }
    if (rates.drop == 0 && rates.duplicate == 0) {
      EXPECT_EQ(raw.given(), kFrames);
      EXPECT_EQ(raw.sniffed(), world.network().frames_sent()) << "received and sent";
    }
    if (rates.duplicate == 0) {
      EXPECT_TRUE(raw.each_once());
    }
    if (rates.reorder == 0 && rates.duplicate == 0) {
      EXPECT_TRUE(raw.in_order());
    }
    EXPECT_GT(raw.received(), kFrames / 8);
    EXPECT_GT(raw.sniffed(), raw.given() + raw.sent_by_receiver());
  }
}

constexpr FaultRates kRawFaults{.drop = 0.03, .duplicate = 0.05, .reorder = 0.05};

INSTANTIATE_TEST_SUITE_P(Networks, RawPackets,
                         testing::Values(RawCase{{}, 48, "Clean"}, RawCase{{.drop = 0.03}, 48, "Drop"},
                                         RawCase{{.duplicate = 0.1}, 48, "Duplicate"},
                                         RawCase{{.reorder = 0.1}, 48, "Reorder"}, RawCase{{}, 1, "FewReceives"},
                                         RawCase{kRawFaults, 48, "All"}),
                         [](const auto& plan) { return plan.param.name; });

}  // namespace
}  // namespace uroce::test
