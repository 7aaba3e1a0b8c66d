// Completions without room, and events that wait for others (ibv_modify_cq(3)).
#include "transport/qp/cq_writer.h"

#include <gtest/gtest.h>

#include "queues/layout.h"
#include "tests/support/test_endpoint.h"
#include "tests/support/test_queues.h"
#include "transport/qp/held_events.h"

namespace uroce::transport {
namespace {

using std::chrono::microseconds;
using Written = CqWriter::Written;

class CqWriterTest : public testing::Test {
 protected:
  static constexpr uint32_t kEntries = 64;

  Written write(CqWriter& writer, Nanos now, bool solicited = false) {
    queues::Cqe cqe{};
    cqe.timestamp_ns = static_cast<uint64_t>(now.count());
    return writer.write(cqe, solicited, events_);
  }
  Written write(Nanos now, bool solicited = false) { return write(writer_, now, solicited); }
  void arm(queues::Arm arm = queues::Arm::any) { header_->arm = static_cast<uint32_t>(arm); }
  std::size_t raised() const { return events_.completions.size(); }

  test::EventLog events_;
  test::AlignedBytes header_memory_ = test::make_aligned(sizeof(queues::CqHeader));
  queues::CqHeader* header_ = reinterpret_cast<queues::CqHeader*>(header_memory_.get());
  test::OwnedRing ring_{kEntries, sizeof(queues::Cqe)}, other_ring_{kEntries, sizeof(queues::Cqe)};
  CqWriter writer_{7, header_, ring_.place};
  CqWriter other_{7, header_, other_ring_.place};
  HeldEvents held_, other_held_;
};

TEST_F(CqWriterTest, AnOverrunIsReportedOnce) {
  for (uint32_t i = 0; i < kEntries; ++i) EXPECT_EQ(write(Nanos(1)), Written::yes);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(write(Nanos(1)), Written::overrun);
  EXPECT_EQ(events_.async.size(), 1u);
}

TEST_F(CqWriterTest, AnOverrunMayBeIgnored) {
  CqWriter careless(7, header_, ring_.place, CqOverrun::ignored);
  queues::RingConsumer consumer(ring_.place);
  for (uint32_t i = 0; i < kEntries; ++i) EXPECT_EQ(write(careless, Nanos(1)), Written::yes);
  EXPECT_EQ(write(careless, Nanos(1)), Written::dropped);
  EXPECT_TRUE(events_.async.empty());
  ASSERT_NE(consumer.available(), 0u);
  consumer.consume(1);
  EXPECT_EQ(write(careless, Nanos(1)), Written::yes);
}

TEST_F(CqWriterTest, AnEventWaitsForItsCount) {
  writer_.moderate(held_, 3, microseconds(100));
  write(Nanos(0));  // not armed yet
  arm();
  write(Nanos(1000));
  write(Nanos(2000));
  EXPECT_EQ(raised(), 0u);
  EXPECT_EQ(held_.next_deadline(), Nanos(101'000));
  write(Nanos(3000));
  EXPECT_EQ(raised(), 1u);
  held_.advance(Nanos(200'000), events_);
  EXPECT_EQ(raised(), 1u) << "it had its event";
  EXPECT_EQ(held_.next_deadline(), kNever);
}

TEST_F(CqWriterTest, AnEventWaitsNoLongerThanItsPeriod) {
  writer_.moderate(held_, 100, microseconds(10));
  for (int round = 1; round <= 3; ++round) {
    const Nanos start = round * microseconds(100);
    arm();
    write(start);
    write(start + microseconds(5));
    held_.advance(start + microseconds(9), events_);
    EXPECT_EQ(raised(), static_cast<std::size_t>(round - 1));
    held_.advance(start + microseconds(10), events_);
    EXPECT_EQ(raised(), static_cast<std::size_t>(round));
  }
}

TEST_F(CqWriterTest, TheSecondWaitBeginsWithItsFirstCompletion) {
  writer_.moderate(held_, 2, microseconds(10));
  arm();
  write(Nanos(0));
  write(Nanos(0));
  arm();
  write(microseconds(8));  // while the writer is still in the list
  held_.advance(microseconds(10), events_);
  EXPECT_EQ(raised(), 1u);
  EXPECT_EQ(held_.next_deadline(), microseconds(18));
  held_.advance(microseconds(18), events_);
  EXPECT_EQ(raised(), 2u);
}

TEST_F(CqWriterTest, OneEngineRaisesForAll) {
  writer_.moderate(held_, 2, microseconds(10));
  other_.moderate(other_held_, 2, microseconds(10));
  arm();
  write(Nanos(0));
  write(other_, Nanos(0));
  write(other_, Nanos(1));
  EXPECT_EQ(raised(), 1u);
  held_.advance(microseconds(10), events_);
  EXPECT_EQ(raised(), 1u) << "the arming was used up";
}

TEST_F(CqWriterTest, OnlyWhatTheQueueIsArmedForCounts) {
  writer_.moderate(held_, 2, microseconds(10));
  arm(queues::Arm::solicited);
  write(Nanos(0), true);
  write(Nanos(0), false);
  EXPECT_EQ(raised(), 0u);
  write(Nanos(0), true);
  EXPECT_EQ(raised(), 1u);
}

TEST_F(CqWriterTest, ModerationEndsAndWritersGo) {
  writer_.moderate(held_, 5, microseconds(10));
  CqWriter third(8, header_, other_ring_.place);
  third.moderate(held_, 5, microseconds(20));
  arm();
  write(Nanos(0));
  write(third, Nanos(0));
  third.forget(held_);
  writer_.moderate(held_, 0, microseconds(10));
  write(Nanos(1));
  EXPECT_EQ(raised(), 1u) << "without delay";
  held_.advance(microseconds(30), events_);
  EXPECT_EQ(raised(), 1u);
  EXPECT_EQ(held_.next_deadline(), kNever);
}

}  // namespace
}  // namespace uroce::transport
