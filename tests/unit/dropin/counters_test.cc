// Counters of receive rules (ibv_create_counters(3)).
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "raw_pair.h"

namespace uroce::dropin {
namespace {

class CountersPair : public FlowPair {
 protected:
  void SetUp() override {
    FlowPair::SetUp();
    ibv_counters_init_attr attr{};
    counters_ = ibv_create_counters(context_, &attr);
    ASSERT_NE(counters_, nullptr);
    count_ = {.type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof count_, .counters = counters_};
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_counters(counters_), 0);
    FlowPair::TearDown();
  }
  ibv_flow* create_counted() { return create_with(raw_[1], count_); }
  int attach(ibv_counter_description what, uint32_t index, ibv_flow* flow = nullptr) {
    ibv_counter_attach_attr attr{.counter_desc = what, .index = index, .comp_mask = 0};
    return ibv_attach_counters_point_flow(counters_, &attr, flow);
  }
  std::array<uint64_t, 3> read() {
    std::array<uint64_t, 3> values{7, 7, 7};
    EXPECT_EQ(ibv_read_counters(counters_, values.data(), 3, 0), 0);
    return values;
  }
  /// Sends frames that the rule takes. They find no receive, and are counted all the same.
  void send_frames(int count) {
    write_frame(5678);
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(send(60), 0);
      ASSERT_EQ(poll(1).size(), 1u);
    }
  }
  /// The engine takes a frame to this device one round after its completion.
  void expect_counted(const std::array<uint64_t, 3>& wanted) {
    const auto until = Clock::now() + 20s;
    while (read() != wanted && Clock::now() < until) {
    }
    EXPECT_EQ(read(), wanted);
  }

  ibv_counters* counters_ = nullptr;
  ibv_flow_spec_counter_action count_{};
};

TEST_F(CountersPair, ARuleThatIsMadeWithThemIsCounted) {
  ASSERT_EQ(attach(IBV_COUNTER_PACKETS, 1), 0);
  ASSERT_EQ(attach(IBV_COUNTER_BYTES, 0), 0);
  ibv_flow* flow = create_counted();
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(read(), (std::array<uint64_t, 3>{0, 0, 0}));
  send_frames(3);
  expect_counted({180, 3, 0});
  EXPECT_EQ(attach(IBV_COUNTER_BYTES, 2), EBUSY) << "a rule uses them";
  EXPECT_EQ(ibv_destroy_counters(counters_), EBUSY);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(read(), (std::array<uint64_t, 3>{180, 3, 0})) << "values stay";
  flow = create_counted();
  ASSERT_NE(flow, nullptr);
  send_frames(1);
  expect_counted({240, 4, 0});
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(CountersPair, PointsOfOneIndexAddUp) {
  ASSERT_EQ(attach(IBV_COUNTER_PACKETS, 2), 0);
  ASSERT_EQ(attach(IBV_COUNTER_BYTES, 2), 0);
  ibv_flow* flow = create_counted();
  ASSERT_NE(flow, nullptr);
  send_frames(2);
  expect_counted({0, 0, 122});
  uint64_t first = 9;
  EXPECT_EQ(ibv_read_counters(counters_, &first, 1, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
  EXPECT_EQ(first, 0u) << "no more than asked for";
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(CountersPair, ARuleCanBeAttachedLater) {
  ibv_flow* flow = create();
  ASSERT_NE(flow, nullptr);
  ASSERT_EQ(attach(IBV_COUNTER_PACKETS, 0, flow), 0);
  send_frames(2);
  expect_counted({2, 0, 0});
  ASSERT_EQ(attach(IBV_COUNTER_PACKETS, 1, flow), 0);
  send_frames(1);
  expect_counted({3, 1, 0});
  EXPECT_EQ(ibv_destroy_counters(counters_), EBUSY);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(read(), (std::array<uint64_t, 3>{3, 1, 0}));
}

TEST_F(CountersPair, WrongCallsAreRefused) {
  EXPECT_EQ(attach(static_cast<ibv_counter_description>(2), 0), ENOTSUP);
  ibv_counter_attach_attr attr{.counter_desc = IBV_COUNTER_BYTES, .index = 0, .comp_mask = 1};
  EXPECT_EQ(ibv_attach_counters_point_flow(counters_, &attr, nullptr), EOPNOTSUPP);
  attr.comp_mask = 0;
  EXPECT_EQ(ibv_attach_counters_point_flow(counters_, &attr, reinterpret_cast<ibv_flow*>(counters_)), EINVAL);
  uint64_t value = 0;
  EXPECT_EQ(ibv_read_counters(counters_, &value, 1, 2), EOPNOTSUPP);
  ibv_counters_init_attr init{.comp_mask = 1};
  EXPECT_EQ(ibv_create_counters(context_, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  count_.size = 8;
  EXPECT_EQ(create_counted(), nullptr);
  EXPECT_EQ(errno, EINVAL);
  count_.size = sizeof count_;
  count_.counters = reinterpret_cast<ibv_counters*>(pd_);
  EXPECT_EQ(create_counted(), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::dropin
