// A client whose daemon is lost flushes posted work itself, and gives the last events.
#include <cerrno>

#include <gtest/gtest.h>
#include <unistd.h>

#include "client/completion_queue.h"
#include "client/context_interface.h"
#include "client/flush.h"
#include "endpoints.h"
#include "tests/support/test_queues.h"

namespace uroce::client {
namespace {

using test::must;

// --- Posted work -------------------------------------------------------------------------------------------------

/// A queue pair's memory without a daemon, as one leaves it that dies.
struct Remains {
  explicit Remains(uint32_t number) : qpn(number) {}
  void hold(uint64_t wr_id) {
    held->wr_id.store(wr_id);
    held->qpn.store(qpn);
    held->held.store(1);
  }
  void post_send(uint64_t wr_id) {
    queues::SendWqe wqe{};
    wqe.wr_id = wr_id;
    wqe.opcode = static_cast<uint8_t>(WrOpcode::rdma_write);
    std::memcpy(sends.slot(), &wqe, sizeof wqe);
    sends.publish(1);
  }

  uint32_t qpn;
  std::atomic<QpState> state{QpState::rts};
  test::AlignedBytes memory = test::make_aligned(sizeof(queues::HeldRecv));
  queues::HeldRecv* held = reinterpret_cast<queues::HeldRecv*>(memory.get());
  test::OwnedRing sq{8, queues::send_stride(1, 0)};
  queues::RingProducer sends{sq.place};
};

class FlushTest : public testing::Test {
 protected:
  void add(Remains& qp) {
    list_.add(qp.qpn, qp.state, std::make_shared<AbandonedRing>(qp.sq.place, AbandonedRing::Holds::sends));
    list_.add(qp.qpn, qp.state, shared_, qp.held);
  }
  void post_recv(uint64_t wr_id) { ASSERT_TRUE(test::put_recv(receives_, wr_id, {})); }
  /// Takes all completions, `room` at a time.
  std::vector<Completion> take(std::size_t room) {
    std::vector<Completion> all;
    std::vector<Completion> some(room);
    while (const std::size_t taken = list_.take(some)) all.insert(all.end(), some.begin(), some.begin() + taken);
    for (const Completion& one : all) EXPECT_EQ(one.status, WcStatus::flushed);
    return all;
  }
  static std::vector<uint64_t> receives(const std::vector<Completion>& all) {
    std::vector<uint64_t> ids;
    for (const Completion& one : all) {
      if (one.opcode == WcOpcode::recv) ids.push_back(one.wr_id);
    }
    return ids;
  }

  test::OwnedRing ring_{8, queues::recv_stride(1)};
  queues::RingProducer receives_{ring_.place};
  std::shared_ptr<AbandonedRing> shared_ = std::make_shared<AbandonedRing>(ring_.place, AbandonedRing::Holds::receives);
  FlushList list_;
  Remains a_{17}, b_{18};
};

TEST_F(FlushTest, AHeldReceiveComesBeforeThoseInTheSharedQueue) {
  add(a_);
  add(b_);
  post_recv(3);
  post_recv(4);
  b_.hold(2);
  a_.hold(1);
  a_.post_send(10);
  const auto all = take(8);
  EXPECT_EQ(receives(all), (std::vector<uint64_t>{1, 2, 3, 4}));
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].qpn, 17u);
  EXPECT_EQ(all[1].qpn, 18u) << "each has the number of its queue pair";
  EXPECT_EQ(a_.state.load(), QpState::reset) << "posts fail";
  EXPECT_EQ(b_.state.load(), QpState::reset);
}

TEST_F(FlushTest, OneCompletionAtATimeIsTheSame) {
  add(a_);
  add(b_);
  post_recv(3);
  a_.hold(1);
  b_.hold(2);
  a_.post_send(10);
  EXPECT_EQ(receives(take(1)), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(take(1).empty()) << "each once";
}

TEST_F(FlushTest, WhatIsNotHeldIsNotFlushed) {
  add(a_);
  a_.hold(1);
  a_.held->held.store(0);  // its message has arrived
  EXPECT_TRUE(take(8).empty());
}

TEST_F(FlushTest, AQueuePairThatHasGoneFlushesNothing) {
  add(a_);
  add(b_);
  a_.hold(1);
  b_.hold(2);
  list_.remove(a_.qpn);
  EXPECT_EQ(receives(take(8)), (std::vector<uint64_t>{2}));
}

/// An XRC queue's memory: its targets, of whichever program, tell in it what they hold.
class XrcFlushTest : public testing::Test {
 protected:
  static constexpr uint32_t kQueue = 5;  // its number
  XrcFlushTest() { list_.add(kQueue, posts_, abandoned_); }
  static std::span<queues::HeldRecv> places(const test::AlignedBytes& memory) {
    return {reinterpret_cast<queues::HeldRecv*>(memory.get()), queues::kHeldOfXrcQueue};
  }
  static void hold(queues::HeldRecv& place, uint64_t wr_id, uint32_t qpn) {
    place.wr_id.store(wr_id);
    place.qpn.store(qpn);
    place.held.store(1);
  }
  std::vector<std::pair<uint64_t, uint32_t>> take() {
    std::vector<std::pair<uint64_t, uint32_t>> all;
    for (std::array<Completion, 1> one; list_.take(one) != 0;) {
      EXPECT_EQ(one[0].status, WcStatus::flushed);
      EXPECT_EQ(one[0].opcode, WcOpcode::recv);
      all.emplace_back(one[0].wr_id, one[0].qpn);
    }
    return all;
  }
  using Taken = std::vector<std::pair<uint64_t, uint32_t>>;

  test::AlignedBytes memory_ = test::make_aligned(sizeof(queues::HeldRecv) * queues::kHeldOfXrcQueue);
  test::OwnedRing ring_{8, queues::recv_stride(1)};
  queues::RingProducer receives_{ring_.place};
  std::shared_ptr<AbandonedRing> abandoned_ =
      std::make_shared<AbandonedRing>(ring_.place, AbandonedRing::Holds::receives, places(memory_));
  std::atomic<QpState> posts_{QpState::rts};
  FlushList list_;
};

TEST_F(XrcFlushTest, WhatTargetsHoldComesBeforeWhatIsPosted) {
  ASSERT_TRUE(test::put_recv(receives_, 3, {}));
  hold(places(memory_)[queues::kHeldOfXrcQueue - 1], 2, 18);
  hold(places(memory_)[4], 1, 17);
  EXPECT_EQ(take(), (Taken{{1, 17}, {2, 18}, {3, kQueue}}));
  EXPECT_TRUE(take().empty()) << "each once";
}

TEST_F(XrcFlushTest, AResizedQueueIsLookedForInItsNewPlace) {
  const test::OwnedRing ring{16, queues::recv_stride(1)};
  const test::AlignedBytes memory = test::make_aligned(sizeof(queues::HeldRecv) * queues::kHeldOfXrcQueue);
  hold(places(memory_)[0], 1, 17);
  queues::copy(places(memory_)[0], places(memory)[0]);
  abandoned_->move(ring.place, places(memory));
  EXPECT_EQ(take(), (Taken{{1, 17}}));
}

// --- Last events -------------------------------------------------------------------------------------------------

class LastEventTest : public testing::Test {
 protected:
  LastEventTest() {
    world_.add();
    context_ = must(make_in_process_context(world_.device()));
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    read_end_ = ends[0];
    write_end_ = ends[1];
    channel_ = std::make_shared<ChannelImpl>(context_, nullptr, read_end_);
    for (uint32_t id = 0; id < 2; ++id) {
      CqParts parts{.id = id};
      parts.place.header = &headers_[id];
      parts.channel = channel_;
      cqs_.push_back(std::make_unique<CqImpl>(*context_, std::move(parts)));
    }
  }
  ~LastEventTest() override {
    daemon_dies();
    cqs_.clear();
    close(read_end_);
  }
  void daemon_dies() {
    if (write_end_ >= 0) close(std::exchange(write_end_, -1));
  }

  test::World world_;
  std::shared_ptr<ContextImpl> context_;
  int read_end_ = -1;
  int write_end_ = -1;
  std::shared_ptr<ChannelImpl> channel_;
  std::array<queues::CqHeader, 2> headers_{};
  std::vector<std::unique_ptr<CqImpl>> cqs_;
};

TEST_F(LastEventTest, AnArmedQueueHasOne) {
  must(cqs_[1]->arm(false));
  EXPECT_EQ(channel_->take(), std::nullopt);
  daemon_dies();
  EXPECT_EQ(channel_->take(), 1u);
  EXPECT_EQ(channel_->take(), std::nullopt);
}

// The engine died between counting an event and writing its token.
TEST_F(LastEventTest, AnEventWithoutItsTokenIsTaken) {
  headers_[1].fired = 1;
  EXPECT_EQ(channel_->take(), std::nullopt) << "the token is still to come";
  daemon_dies();
  EXPECT_EQ(channel_->take(), 1u);
  EXPECT_EQ(channel_->take(), std::nullopt);
}

// The engine died between disarming the queue and counting the event.
TEST_F(LastEventTest, AnEventThatWasNotCountedIsTaken) {
  must(cqs_[1]->arm(false));
  headers_[1].arm = 0;
  daemon_dies();
  EXPECT_EQ(channel_->take(), 1u);
  EXPECT_EQ(channel_->take(), std::nullopt);
}

TEST_F(LastEventTest, AnEventThatWasTakenIsNotGivenAgain) {
  must(cqs_[1]->arm(false));
  headers_[1].arm = 0;
  headers_[1].fired = 1;
  ASSERT_EQ(write(write_end_, "x", 1), 1);
  EXPECT_EQ(channel_->take(), 1u);
  daemon_dies();
  EXPECT_EQ(channel_->take(), std::nullopt);
}

TEST_F(LastEventTest, TokensInThePipeComeFirst) {
  headers_[0].fired = 1;
  ASSERT_EQ(write(write_end_, "x", 1), 1);
  must(cqs_[1]->arm(false));
  daemon_dies();
  EXPECT_EQ(channel_->take(), 0u);
  EXPECT_EQ(channel_->take(), 1u);
  EXPECT_EQ(channel_->take(), std::nullopt);
}

}  // namespace
}  // namespace uroce::client
