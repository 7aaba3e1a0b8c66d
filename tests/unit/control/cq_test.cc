#include "control/cq.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "control/cq_channel.h"
#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::World;

class CqTest : public testing::Test {
 protected:
  CqTest() {
    world_.add({.engines = 3});
    session_ = *DeviceSession::open(world_.device());
  }

  World world_;
  std::shared_ptr<DeviceSession> session_;
};

TEST_F(CqTest, HasARingPerEngineThatDoNotOverlap) {
  const auto cq = *session_->create_cq(100, nullptr);
  EXPECT_EQ(cq->entries(), 128u);
  ASSERT_EQ(cq->rings(), 3u);
  std::byte* end = cq->ring_memory().data();
  for (uint32_t engine = 0; engine < cq->rings(); ++engine) {
    const auto ring = cq->place().ring(engine);
    EXPECT_EQ(ring.entries, 128u);
    EXPECT_EQ(ring.stride, sizeof(queues::Cqe));
    EXPECT_GE(reinterpret_cast<std::byte*>(ring.header), end);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ring.header) % 64, 0u);
    end = ring.slot(0) + std::size_t{ring.entries} * ring.stride;
    EXPECT_EQ(cq->writer(engine).id(), cq->id());
  }
  EXPECT_EQ(static_cast<std::size_t>(end - cq->ring_memory().data()), queues::CqPlace::ring_bytes_of(128, 3));
}

TEST_F(CqTest, LivesAsLongAsAQueuePairUsesIt) {
  auto cq = *session_->create_cq(4, nullptr);
  const std::weak_ptr<Cq> watch = cq;
  auto qp = *session_->create_qp(*session_->create_pd(), cq, cq, {}, nullptr);
  cq.reset();
  EXPECT_FALSE(watch.expired());
  qp.reset();
  EXPECT_TRUE(watch.expired());
}

class ChannelTest : public CqTest {};

TEST_F(ChannelTest, HoldsOneTokenPerFiringAndTheQueueCountsThem) {
  const auto channel = *session_->create_channel();
  const auto a = *session_->create_cq(4, channel);
  const auto b = *session_->create_cq(4, channel);
  uint8_t tokens[8];
  EXPECT_EQ(read(channel->fd(), tokens, sizeof tokens), -1);
  a->fire();
  a->fire();
  b->fire();
  EXPECT_TRUE(world_.device()->wait_readable(channel->fd(), std::chrono::nanoseconds(0)));
  EXPECT_EQ(read(channel->fd(), tokens, sizeof tokens), 3);
  const uint8_t of_a = queues::event_token(a->id()), of_b = queues::event_token(b->id());
  EXPECT_NE(of_a, of_b);
  EXPECT_TRUE(tokens[0] == of_a && tokens[1] == of_a && tokens[2] == of_b) << "in the order of the events";
  EXPECT_EQ(a->place().header->fired, 2u);
  EXPECT_EQ(b->place().header->fired, 1u);
  EXPECT_FALSE(world_.device()->wait_readable(channel->fd(), std::chrono::nanoseconds(0)));
}

TEST_F(ChannelTest, OutlivesItsHandleWithTheQueue) {
  auto channel = *session_->create_channel();
  const auto cq = *session_->create_cq(4, channel);
  const std::weak_ptr<CqChannel> watch = channel;
  channel.reset();
  cq->fire();
  EXPECT_FALSE(watch.expired());
}

TEST_F(ChannelTest, AQueueWithoutAChannelFiresIntoNothing) { (*session_->create_cq(4, nullptr))->fire(); }

}  // namespace
}  // namespace uroce::control
