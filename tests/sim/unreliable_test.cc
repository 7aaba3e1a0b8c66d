// UC and UD over a faulty network: whatever it does, messages arrive whole or not at all, and every send completes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/sim/network.h"

namespace uroce::test {
namespace {

constexpr uint32_t kMessages = 300;
constexpr uint32_t kStride = 2048;  // longest message
constexpr uint32_t kGrh = 40;
constexpr uint32_t kReceiveBytes = kStride + kGrh;

struct Case {
  QpType type;
  FaultRates rates;
  uint32_t receives;  // kept posted
  const char* name;
};

// Each message has its own place in the source, carries its number as immediate data, and WRITEs to its own place.
class Traffic {
 public:
  Traffic(const Case& plan, uint64_t seed)
      : plan_(plan), random_(seed), faults_(plan.rates, seed ^ 0xfa17), from_(host(1, seed)), to_(host(2, seed)) {
    from_cq_ = &from_.make_cq(2 * kMessages);
    to_cq_ = &to_.make_cq(2 * kMessages);
    from_qp_ = &from_.make_qp({.qpn = 0x11, .type = plan.type, .send_cq = from_cq_});
    to_qp_ = &to_.make_qp({.qpn = 0x22, .type = plan.type, .recv_cq = to_cq_});
    const auto psn = static_cast<uint32_t>(0xffff80 + random_.below(128));
    from_qp_->connect({.dest_qpn = 0x22, .sq_psn = psn, .mtu = Mtu::mtu512}, from_.route_to(to_));
    to_qp_->connect({.dest_qpn = 0x11, .rq_psn = psn, .mtu = Mtu::mtu512}, to_.route_to(from_));
    constexpr AccessFlags kWritable = AccessFlags(Access::local_write) | Access::remote_write;
    source_ = &from_.make_region(kMessages * kStride, Access::local_write);
    target_ = &to_.make_region(kMessages * kStride, kWritable);
    inbox_ = &to_.make_region(64 * kReceiveBytes, kWritable);
    ah_ = from_.make_ah(from_.route_to(to_));
    for (uint32_t i = 0; i < kMessages; ++i) {
      const bool datagram = plan.type == QpType::ud;
      lengths_.push_back(static_cast<uint32_t>(random_.below(datagram ? 513 : kStride + 1)));
      writes_.push_back(!datagram && random_.chance(0.4));
    }
  }

  void go() {
    Network network({&from_, &to_}, faults_, Nanos(2000), random_.next());
    while (completed_ < kMessages || network.next_event() != kNever) {
      for (uint64_t burst = random_.below(6); burst > 0 && posted_ < kMessages && post(); --burst) continue;
      post_receives();
      network.run(0);
      network.run(1);
      take();
      const Nanos next = network.next_event();
      network.advance_to(next == kNever ? network.now() + Nanos(1000) : next);
      if (testing::Test::HasFailure()) return;
    }
    take();
    EXPECT_EQ(completed_, kMessages);
    EXPECT_TRUE(from_.guards_intact() && to_.guards_intact());
    EXPECT_EQ(from_qp_->state(), QpState::rts);
    EXPECT_EQ(to_qp_->state(), QpState::rts);
    EXPECT_EQ(find_mismatch(source_->bytes(), source_->stream()), source_->bytes().size());
  }

  uint64_t received() const { return received_.size(); }
  uint64_t duplicates() const { return duplicates_; }
  bool in_order() const { return in_order_; }

 private:
  static EndpointOptions host(uint8_t number, uint64_t seed) {
    EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000000u + number);
    options.mac = {{2, 0, 0, 0, 0, number}};
    options.seed = 2 * seed + number;
    return options;
  }

  bool post() {
    const uint32_t i = posted_;
    const uint64_t at = uint64_t{i} * kStride;
    const auto cut = static_cast<uint32_t>(random_.below(lengths_[i] + 1));
    const std::array<Sge, 2> sges{source_->sge(at, cut), source_->sge(at + cut, lengths_[i] - cut)};
    if (!from_qp_->post_send({.wr_id = i,
                              .opcode = writes_[i] ? WrOpcode::rdma_write_with_imm : WrOpcode::send_with_imm,
                              .flags = SendFlag::signaled,
                              .sges = sges,
                              .imm_or_key = i,
                              .remote_addr = target_->va() + at,
                              .rkey = target_->key(),
                              .ah = ah_,
                              .remote_qpn = 0x22,
                              .remote_qkey = ConnectOptions{}.qkey})) {
      return false;
    }
    ++posted_;
    return true;
  }

  void post_receives() {
    while (receives_ < plan_.receives) {
      const Sge sge = inbox_->sge(next_receive_ % 64 * kReceiveBytes, kReceiveBytes);
      if (!to_qp_->post_recv({.wr_id = next_receive_, .sges = {&sge, 1}})) return;
      ++next_receive_;
      ++receives_;
    }
  }

  void take() {
    while (const auto cqe = from_cq_->poll()) {
      EXPECT_EQ(cqe->wr_id, completed_++);
      EXPECT_EQ(cqe->status, static_cast<uint8_t>(WcStatus::success));
    }
    while (const auto cqe = to_cq_->poll()) check(*cqe);
  }

  void check(const queues::Cqe& cqe) {
    --receives_;
    ASSERT_EQ(cqe.status, static_cast<uint8_t>(WcStatus::success));
    EXPECT_EQ(cqe.wr_id, next_done_++) << "receives are used in order";
    const uint32_t i = cqe.imm_or_key;
    ASSERT_LT(i, posted_);
    const uint32_t front = plan_.type == QpType::ud ? kGrh : 0;
    EXPECT_EQ(cqe.byte_len, lengths_[i] + front);
    const bool write = cqe.opcode == static_cast<uint8_t>(WcOpcode::recv_rdma_with_imm);
    EXPECT_EQ(write, writes_[i]);
    const std::byte* bytes =
        write ? target_->bytes().data() + i * kStride : inbox_->bytes().data() + cqe.wr_id % 64 * kReceiveBytes + front;
    EXPECT_EQ(std::memcmp(bytes, source_->bytes().data() + i * kStride, lengths_[i]), 0) << "message " << i;
    if (!received_.empty() && i < newest_) in_order_ = false;
    newest_ = i;
    if (!received_.insert(i).second) ++duplicates_;
  }

  Case plan_;
  Random random_;
  RandomFaults faults_;
  TestEndpoint from_, to_;
  TestCq *from_cq_ = nullptr, *to_cq_ = nullptr;
  TestQp *from_qp_ = nullptr, *to_qp_ = nullptr;
  TestRegion *source_ = nullptr, *target_ = nullptr, *inbox_ = nullptr;
  uint32_t ah_ = 0;
  std::vector<uint32_t> lengths_;
  std::vector<bool> writes_;
  uint32_t posted_ = 0;
  uint64_t completed_ = 0;
  uint32_t receives_ = 0;
  uint64_t next_receive_ = 0;
  uint64_t next_done_ = 0;
  uint32_t newest_ = 0;
  std::set<uint32_t> received_;
  uint64_t duplicates_ = 0;
  bool in_order_ = true;
};

class UnreliableNetwork : public testing::TestWithParam<Case> {};

TEST_P(UnreliableNetwork, LosesWholeMessagesAndCorruptsNone) {
  const Case& plan = GetParam();
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Traffic run(plan, seed);
    run.go();
    if (HasFailure()) return;
    const FaultRates& rates = plan.rates;
    const bool lossy = rates.drop > 0 || rates.corrupt > 0 || rates.reorder > 0 || plan.receives < 32;
    if (lossy) {
      EXPECT_LT(run.received(), kMessages);
    } else {
      EXPECT_EQ(run.received(), kMessages);
    }
    EXPECT_GT(run.received(), kMessages / 8) << "one loss costs one message, not those after it";
    if (rates.duplicate == 0) {
      EXPECT_EQ(run.duplicates(), 0u);
    }
    if (rates.duplicate == 0 && rates.reorder == 0) {
      EXPECT_TRUE(run.in_order());
    }
  }
}

constexpr FaultRates kAllFaults{.drop = 0.05, .duplicate = 0.05, .reorder = 0.05, .corrupt = 0.05};

INSTANTIATE_TEST_SUITE_P(
    Services, UnreliableNetwork,
    testing::Values(Case{QpType::uc, {}, 48, "UcClean"}, Case{QpType::ud, {}, 48, "UdClean"},
                    Case{QpType::uc, {.drop = 0.05}, 48, "UcDrop"}, Case{QpType::ud, {.drop = 0.05}, 48, "UdDrop"},
                    Case{QpType::uc, {.duplicate = 0.1}, 48, "UcDuplicate"}, Case{QpType::uc, {}, 1, "UcFewReceives"},
                    Case{QpType::ud, {}, 1, "UdFewReceives"}, Case{QpType::uc, kAllFaults, 48, "UcAll"},
                    Case{QpType::ud, kAllFaults, 48, "UdAll"}),
    [](const auto& plan) { return plan.param.name; });

}  // namespace
}  // namespace uroce::test
