#include "queues/cq_poller.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/test_queues.h"

namespace uroce::queues {
namespace {

constexpr uint32_t kRings = 3;
constexpr uint32_t kCqEntries = 8;

class CqPollerTest : public testing::Test {
 protected:
  CqPollerTest() {
    for (uint32_t i = 0; i < kRings; ++i) {
      rings_.emplace_back(kCqEntries, static_cast<uint32_t>(sizeof(Cqe)));
      producers_.emplace_back(rings_[i].place);
      consumers_.emplace_back(rings_[i].place);
    }
  }
  void write(uint32_t ring, uint64_t wr_id) {
    Cqe cqe{};
    cqe.wr_id = wr_id;
    std::memcpy(producers_[ring].slot(), &cqe, sizeof cqe);
    producers_[ring].publish(1);
  }

  std::vector<test::OwnedRing> rings_;
  std::vector<RingProducer> producers_;
  std::vector<RingConsumer> consumers_;
  std::array<Completion, 16> out_;
};

TEST_F(CqPollerTest, ConvertsEveryMember) {
  CqPoller poller({consumers_[0]});
  const Cqe cqe{.wr_id = 1,
                .qpn = 2,
                .byte_len = 3,
                .imm_or_key = 4,
                .src_qpn = 5,
                .flags = static_cast<uint32_t>(WcFlag::with_imm),
                .status = static_cast<uint8_t>(WcStatus::rnr_retry_exceeded),
                .opcode = static_cast<uint8_t>(WcOpcode::recv_rdma_with_imm),
                .pkey_index = 0,
                .vendor_error = 6,
                .flow_tag = 8,
                .timestamp_ns = 7,
                .vlan_tag = 9,
                .reserved0 = 0,
                .reserved1 = 0,
                .reserved2 = 0};
  std::memcpy(producers_[0].slot(), &cqe, sizeof cqe);
  producers_[0].publish(1);
  ASSERT_EQ(poller.poll(out_), 1u);
  EXPECT_EQ(out_[0].wr_id, 1u);
  EXPECT_EQ(out_[0].qpn, 2u);
  EXPECT_EQ(out_[0].byte_len, 3u);
  EXPECT_EQ(out_[0].imm_or_key, 4u);
  EXPECT_EQ(out_[0].src_qpn, 5u);
  EXPECT_EQ(out_[0].flags, WcFlags(WcFlag::with_imm));
  EXPECT_EQ(out_[0].status, WcStatus::rnr_retry_exceeded);
  EXPECT_EQ(out_[0].opcode, WcOpcode::recv_rdma_with_imm);
  EXPECT_EQ(out_[0].vendor_error, 6u);
  EXPECT_EQ(out_[0].timestamp_ns, 7u);
  EXPECT_EQ(out_[0].flow_tag, 8u);
  EXPECT_EQ(out_[0].vlan_tag, 9u);
}

TEST_F(CqPollerTest, TakesFromAllRingsAndGivesTheSlotsBack) {
  CqPoller poller(consumers_);
  for (int round = 0; round < 5; ++round) {
    for (uint32_t ring = 0; ring < kRings; ++ring) {
      for (uint64_t i = 0; i < 5; ++i) write(ring, ring * 100 + i);
    }
    std::vector<uint64_t> last(kRings, 0);
    EXPECT_EQ(poller.poll(out_), 15u);
    for (uint32_t i = 0; i < 15; ++i) {
      const uint64_t ring = out_[i].wr_id / 100;
      EXPECT_EQ(out_[i].wr_id % 100, last[ring]++);  // oldest first in each
    }
    EXPECT_EQ(poller.poll(out_), 0u);
    for (auto& producer : producers_) EXPECT_EQ(producer.room(), kCqEntries);
  }
}

TEST_F(CqPollerTest, ABusyRingDoesNotStarveTheOthers) {
  CqPoller poller(consumers_);
  for (uint32_t ring = 0; ring < kRings; ++ring) {
    for (uint64_t i = 0; i < 4; ++i) write(ring, ring);
  }
  std::vector<int> seen(kRings);
  for (uint32_t i = 0; i < kRings; ++i) {
    ASSERT_EQ(poller.poll({out_.data(), 1}), 1u);
    ++seen[out_[0].wr_id];
  }
  EXPECT_EQ(seen, std::vector<int>({1, 1, 1}));
}

TEST_F(CqPollerTest, TakesNoMoreThanAsked) {
  CqPoller poller(consumers_);
  for (uint64_t i = 0; i < 8; ++i) write(1, i);
  EXPECT_EQ(poller.poll({}), 0u);
  EXPECT_EQ(poller.poll({out_.data(), 3}), 3u);
  EXPECT_EQ(poller.poll({out_.data(), 10}), 5u);
  EXPECT_EQ(out_[4].wr_id, 7u);
}

}  // namespace
}  // namespace uroce::queues
