#include "control/held_completions.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/completion_faults.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/device_session.h"
#include "queues/cq_poller.h"
#include "world.h"

namespace uroce::control {
namespace {

using std::chrono::milliseconds;

class Rules final : public CompletionRules {
 public:
  explicit Rules(const CompletionFate& all) : fate(all) {}
  CompletionFate fate_of(uint32_t cq, Nanos) override {
    EXPECT_EQ(cq, 7u);
    ++asked;
    return fate;
  }
  CompletionFate fate;
  uint32_t asked = 0;
};

constexpr uint32_t kEntries = 8;

queues::Cqe numbered(uint64_t id) {
  queues::Cqe cqe{};
  cqe.wr_id = id;
  return cqe;
}

/// A queue of two engines, and what keeps its completions.
class HeldCompletionsTest : public testing::Test {
 protected:
  HeldCompletionsTest() {
    memory_ = *HeapAllocator().allocate(sizeof(queues::CqHeader) + queues::CqPlace::ring_bytes_of(kEntries, 2));
    place_ = queues::CqPlace::at(memory_->data(), memory_->data() + sizeof(queues::CqHeader), kEntries);
    held_ = *HeldCompletions::create(7, place_, 2);
    for (uint32_t engine = 0; engine < 2; ++engine) {
      held_->begin(engine, 0);
      engines_.emplace_back(held_->ring(engine));
    }
    poller_ = std::make_unique<queues::CqPoller>(place_, 2);
  }

  void write(uint64_t id, uint32_t qpn = 1, WcOpcode opcode = WcOpcode::send, std::size_t engine = 0) {
    ASSERT_NE(engines_[engine].room(), 0u);
    queues::Cqe cqe = numbered(id);
    cqe.qpn = qpn;
    cqe.opcode = static_cast<uint8_t>(opcode);
    std::memcpy(engines_[engine].slot(), &cqe, sizeof cqe);
    engines_[engine].publish(1);
  }
  bool turn(Rules& rules, int ms) {
    held_->take(rules, milliseconds(ms));
    return held_->release(milliseconds(ms));
  }
  /// The completions that a program polls now.
  std::vector<Completion> all() {
    std::vector<Completion> out(kEntries);
    out.resize(poller_->poll(out));
    return out;
  }
  std::string polled() {
    std::string ids;
    for (const Completion& one : all()) ids += std::to_string(one.wr_id);
    return ids;
  }

  std::unique_ptr<QueueMemory> memory_;
  queues::CqPlace place_;
  std::unique_ptr<HeldCompletions> held_;
  std::vector<queues::RingProducer> engines_;
  std::unique_ptr<queues::CqPoller> poller_;
};

TEST_F(HeldCompletionsTest, ComeLaterInTheirOrder) {
  Rules rules({.delay = milliseconds(5)});
  write(1);
  turn(rules, 0);
  rules.fate = {};
  write(2, 2, WcOpcode::send, 1);
  turn(rules, 4);
  EXPECT_EQ(polled(), "") << "the second waits for the first";
  EXPECT_EQ(held_->size(), 2u);
  turn(rules, 5);
  EXPECT_EQ(polled(), "21") << "rings are polled in turn";
  EXPECT_EQ(rules.asked, 2u);
}

TEST_F(HeldCompletionsTest, ComeTogetherOrWhenTheirPatienceEnds) {
  Rules rules({.together = 3, .patience = milliseconds(10)});
  write(1);
  write(2);
  turn(rules, 0);
  EXPECT_EQ(polled(), "");
  write(3);
  write(4);
  turn(rules, 1);
  EXPECT_EQ(polled(), "123");
  turn(rules, 10);
  EXPECT_EQ(polled(), "");
  turn(rules, 11);
  EXPECT_EQ(polled(), "4");
}

TEST_F(HeldCompletionsTest, WorkQueuesChangePlacesAndKeepTheirOrder) {
  std::string seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Rules rules({.together = 6, .patience = milliseconds(10), .mixed = true, .seed = seed});
    for (const uint64_t i : {1, 2}) {
      write(i, 5, WcOpcode::recv);
      write(i + 2, 5);
      write(i + 4, 6);
    }
    turn(rules, 0);
    const std::string ids = polled();
    ASSERT_EQ(ids.size(), 6u);
    for (const auto& [first, second] : {std::pair('1', '2'), std::pair('3', '4'), std::pair('5', '6')}) {
      EXPECT_LT(ids.find(first), ids.find(second)) << ids;
    }
    seen += ids + " ";
  }
  EXPECT_NE(seen.find("3412"), std::string::npos) << "a send's before the receive's of its queue pair: " << seen;
}

TEST_F(HeldCompletionsTest, TheirEventComesLater) {
  Rules rules({.event_delay = milliseconds(5)});
  queues::arm(*place_.header, queues::Arm::any);
  write(1);
  EXPECT_FALSE(turn(rules, 0));
  EXPECT_EQ(polled(), "1");
  EXPECT_FALSE(turn(rules, 4));
  EXPECT_TRUE(turn(rules, 5));
  EXPECT_FALSE(turn(rules, 6)) << "one event for each arming";
  write(2);
  EXPECT_FALSE(turn(rules, 20));
  EXPECT_FALSE(turn(rules, 25)) << "nobody has armed the queue again";
}

TEST_F(HeldCompletionsTest, AProgramThatWaitsForSolicitedOnesHasAnEventForThem) {
  Rules rules({});
  queues::arm(*place_.header, queues::Arm::solicited);
  write(1);
  EXPECT_FALSE(turn(rules, 0));
  write(2);
  EXPECT_TRUE(queues::disarm(held_->header())) << "by the engine";
  EXPECT_TRUE(turn(rules, 0));
}

TEST_F(HeldCompletionsTest, WhatTheProgramHasNoRoomForStaysWithTheEngine) {
  Rules rules({});
  for (uint32_t i = 0; i < kEntries; ++i) write(i);
  turn(rules, 0);
  for (uint32_t i = 0; i < kEntries; ++i) write(i);
  turn(rules, 0);
  EXPECT_EQ(engines_[0].room(), 0u) << "the next one is an overrun";
  EXPECT_EQ(polled(), "01234567");
  turn(rules, 0);
  EXPECT_EQ(engines_[0].room(), kEntries);
}

TEST_F(HeldCompletionsTest, AllGoOnAtTheEnd) {
  Rules rules({.delay = milliseconds(1000)});
  queues::arm(*place_.header, queues::Arm::any);
  write(1);
  write(2);
  turn(rules, 0);
  EXPECT_TRUE(held_->release_all(milliseconds(1)));
  EXPECT_EQ(polled(), "12");
  EXPECT_EQ(held_->end(0), std::pair(2u, true));
  write(3, 1, WcOpcode::send, 1);
  EXPECT_EQ(held_->end(1), std::pair(0u, false));
}

/// The rules that a device has.
class Later final : public CompletionRules {
 public:
  CompletionFate fate_of(uint32_t, Nanos) override { return {.delay = std::chrono::hours(1)}; }
};

TEST(HeldQueue, GoesOnWhereItWas) {
  test::World world;
  world.add({.engines = 2});
  const auto session = *DeviceSession::open(world.device());
  const auto channel = *session->create_channel();
  const auto cq = *session->create_cq(4, channel);
  Later rules;
  queues::CqPoller poller(cq->place(), 2);
  const auto write = [&](uint64_t id) {
    EXPECT_EQ(cq->writer(1).write(numbered(id), false, world.device()->events()), transport::CqWriter::Written::yes);
  };
  const auto polled = [&] {
    std::vector<Completion> out(4);
    out.resize(poller.poll(out));
    std::string ids;
    for (const Completion& one : out) ids += std::to_string(one.wr_id);
    return ids;
  };
  write(1);
  for (const std::string ids : {"123", "23"}) {
    ASSERT_TRUE(hold_completions(*world.device(), &rules));
    queues::arm(*cq->place().header, queues::Arm::any);
    write(2);
    release_completions(*world.device(), Nanos(0));
    write(3);
    EXPECT_EQ(cq->place().header->fired, ids == "123" ? 0u : 1u);
    EXPECT_EQ(cq->unread(), ids.size());
    ASSERT_TRUE(hold_completions(*world.device(), nullptr));
    EXPECT_EQ(polled(), ids);
    EXPECT_EQ(cq->place().header->fired, ids == "123" ? 1u : 2u);
  }
  write(4);
  EXPECT_EQ(polled(), "4");
}

TEST(HeldQueue, IsHeldFromItsBeginningAndThroughAResize) {
  test::World world;
  world.add();
  Later rules;
  ASSERT_TRUE(hold_completions(*world.device(), &rules));
  const auto session = *DeviceSession::open(world.device());
  const auto cq = *session->create_cq(4, nullptr);
  cq->writer(0).write(numbered(1), false, world.device()->events());
  EXPECT_EQ(cq->place().ring(0).filled(), 0u);
  ASSERT_TRUE(cq->resize(16));
  EXPECT_EQ(cq->place().ring(0).filled(), 1u) << "what waited has gone on";
  cq->writer(0).write(numbered(2), false, world.device()->events());
  EXPECT_EQ(cq->place().ring(0).filled(), 1u);
  EXPECT_EQ(cq->state().rings[0].next, 2u) << "another daemon goes on behind all";
  EXPECT_EQ(cq->place().ring(0).filled(), 2u);
  ASSERT_TRUE(hold_completions(*world.device(), nullptr));
}

TEST(OverrunQueue, EndsTheQueuePairOfTheNextCompletion) {
  test::World world;
  world.add();
  const auto session = *DeviceSession::open(world.device());
  const auto cq = *session->create_cq(4, nullptr);
  const auto counts = *session->create_cq(4, nullptr, transport::CqOverrun::ignored);
  for (const auto& one : {cq, counts}) overrun_completion_queue(*world.device(), one->id());
  using Written = transport::CqWriter::Written;
  EXPECT_EQ(cq->writer(0).write(numbered(1), false, world.device()->events()), Written::overrun);
  EXPECT_EQ(counts->writer(0).write(numbered(1), false, world.device()->events()), Written::yes);
}

}  // namespace
}  // namespace uroce::control
