#include "transport/engine/dispatcher.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/transport/bare_qp.h"
#include "tests/unit/transport/engine/now.h"
#include "transport/qp/error.h"
#include "transport/qp/modify.h"
#include "transport/qp/work_queue.h"

namespace uroce::transport {
namespace {

using test::BareContext;
using test::BareQp;
using Events = std::vector<std::pair<AsyncEventType, uint32_t>>;

class Dispatching : public ::testing::Test {
 protected:
  Dispatching() {
    bare_.ctx.now = kNow;
    dispatcher_.timers().advance(kNow, [](Qp&) {}, [](Qp&) {}, [](Qp&) {});
    rc_->state = QpState::rts;
    uc_->state = QpState::rts;
  }
  // The QPs whose timers have fired by `until`.
  struct Fired {
    std::vector<uint32_t> ack, hello, turn;
  };
  Fired fire(Nanos until) {
    Fired fired;
    dispatcher_.timers().advance(
        until, [&](Qp& qp) { fired.ack.push_back(qp.qpn); }, [&](Qp& qp) { fired.hello.push_back(qp.qpn); },
        [&](Qp& qp) { fired.turn.push_back(qp.qpn); });
    return fired;
  }
  std::vector<WcStatus> completions(BareQp& qp) {
    std::vector<WcStatus> out;
    while (const auto cqe = qp.cq.poll()) out.push_back(static_cast<WcStatus>(cqe->status));
    return out;
  }
  // Serves the flush queue as the loop does, in pieces of one.
  void flush() {
    while (Qp* qp = dispatcher_.flush_queue().pop()) {
      const Flushed done = flush_posted(bare_.ctx, *qp, 1);
      if (done.more) dispatcher_.flush_queue().push(*qp);
      dispatcher_.apply(*qp, done.out);
    }
  }
  // An executed READ's response waits.
  void queue_response() {
    ReplayStore& store = rc_->cold->replay;
    rc_->responses.resize(store, 1);
    rc_->responses.push(store, *store.add(), 0, 1, true);
  }
  // Posts SENDs, which the engine has taken.
  void fetch(BareQp& qp, uint32_t requests) {
    for (uint32_t i = 0; i < requests; ++i) qp.post_send(i);
    for (uint32_t i = 0; i < requests; ++i) ASSERT_TRUE(fetch_wqe(bare_.ctx, *qp));
  }

  BareContext bare_;
  BareQp rc_{0x11};
  BareQp uc_{0x12, QpType::uc};
  Dispatcher dispatcher_{bare_.ctx};
};

// --- Actions --------------------------------------------------------------------------------------------------------

TEST_F(Dispatching, NothingChangesNothing) {
  dispatcher_.apply(*rc_, Outcome{});
  EXPECT_TRUE(dispatcher_.run_queue().empty());
  EXPECT_EQ(dispatcher_.timers().next_deadline(), kNever);
  EXPECT_EQ(rc_->state, QpState::rts);
}

TEST_F(Dispatching, WakePutsTheQueuePairOnTheRunQueueOnce) {
  dispatcher_.apply(*rc_, Outcome::wake());
  dispatcher_.apply(*rc_, Outcome::wake());
  EXPECT_EQ(dispatcher_.run_queue().pop(), &*rc_);
  EXPECT_TRUE(dispatcher_.run_queue().empty());
}

TEST_F(Dispatching, TheAckTimerEndsAtTheWheelsDeadline) {
  rc_->cold->wheel_deadline = kNow + std::chrono::microseconds(100);
  rc_->cold->timer_pending = true;
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kAckTimer));
  EXPECT_TRUE(fire(kNow + std::chrono::microseconds(90)).ack.empty());
  EXPECT_EQ(fire(kNow + std::chrono::microseconds(110)).ack, std::vector<uint32_t>{0x11});
  EXPECT_FALSE(rc_->cold->timer_pending);
}

TEST_F(Dispatching, TheHelloTimerFollowsDiscovery) {
  PeerDiscovery& discovery = rc_->tx.recovery->discovery;
  discovery.begin(Retransmission::automatic, 1);
  discovery.await(kNow);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer));
  EXPECT_TRUE(rc_->cold->hello_timer.armed());
  discovery.stop();
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer));
  EXPECT_FALSE(rc_->cold->hello_timer.armed());
  discovery.await(kNow);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer));
  EXPECT_EQ(fire(kNow + std::chrono::seconds(1)).hello, std::vector<uint32_t>{0x11});
}

TEST_F(Dispatching, AQueuePairWaitsForItsTurnOnceAndIsCounted) {
  rc_->cold->pacer.charge(4096, 1'000'000'000, kNow);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kPacingTimer));
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kPacingTimer));
  EXPECT_EQ(bare_.counters.paced_waits.get(), 1u);
  EXPECT_TRUE(fire(rc_->cold->pacer.next_send() - Nanos(1)).turn.empty());
  EXPECT_EQ(fire(rc_->cold->pacer.next_send() + Nanos(1'000)).turn, std::vector<uint32_t>{0x11});
}

TEST_F(Dispatching, StopTimersEndsHellosAndTurnsButNotTheAckTimer) {
  rc_->tx.recovery->discovery.begin(Retransmission::automatic, 1);
  rc_->tx.recovery->discovery.await(kNow);
  rc_->cold->pacer.charge(4096, 1'000'000'000, kNow);
  rc_->cold->wheel_deadline = kNow + std::chrono::microseconds(100);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer) | Outcome::act(Outcome::kPacingTimer) |
                              Outcome::act(Outcome::kAckTimer));
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kStopTimers));
  EXPECT_FALSE(rc_->cold->hello_timer.armed());
  EXPECT_FALSE(rc_->cold->pacing_timer.armed());
  EXPECT_TRUE(rc_->cold->ack_timer.armed());
}

TEST_F(Dispatching, OneOutcomeMaySetAndStop) {
  rc_->tx.recovery->discovery.begin(Retransmission::automatic, 1);
  rc_->tx.recovery->discovery.await(kNow);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer) | Outcome::act(Outcome::kStopTimers));
  EXPECT_FALSE(rc_->cold->hello_timer.armed()) << "stopping comes last";
}

TEST_F(Dispatching, QueuePairsThatCompleteWhenSentAreListedOnceInARow) {
  dispatcher_.apply(*uc_, Outcome::act(Outcome::kCompleteWhenSent));
  dispatcher_.apply(*uc_, Outcome::act(Outcome::kCompleteWhenSent));
  EXPECT_EQ(dispatcher_.sent(), std::vector<Qp*>{&*uc_});
}

TEST_F(Dispatching, AForgottenQueuePairIsInNoListAndHasNoTimer) {
  rc_->cold->wheel_deadline = kNow + std::chrono::microseconds(100);
  rc_->cold->timer_pending = true;
  rc_->cold->pacer.charge(4096, 1'000'000'000, kNow);
  dispatcher_.apply(*rc_, Outcome::wake() | Outcome::act(Outcome::kAckTimer) | Outcome::act(Outcome::kPacingTimer));
  dispatcher_.forget(*rc_);
  EXPECT_TRUE(dispatcher_.run_queue().empty());
  EXPECT_EQ(dispatcher_.timers().next_deadline(), kNever);
  EXPECT_FALSE(rc_->cold->timer_pending);
}

// --- Failures -------------------------------------------------------------------------------------------------------

TEST_F(Dispatching, ARequestersFailureCompletesTheOldestRequestAndFlushesTheRest) {
  fetch(rc_, 2);
  rc_.post_send(2);
  rc_.post_recv(3);
  dispatcher_.apply(*rc_, Outcome::fail(Failure::requester, WcStatus::retry_exceeded));
  EXPECT_EQ(rc_->state, QpState::error);
  EXPECT_EQ(rc_.cq.writer().used(), 1u) << "the rest has its turn";
  flush();
  EXPECT_EQ(completions(rc_),
            (std::vector<WcStatus>{WcStatus::retry_exceeded, WcStatus::flushed, WcStatus::flushed, WcStatus::flushed}));
  EXPECT_TRUE(bare_.events.seen.empty());
}

TEST_F(Dispatching, ARespondersFailureIsReportedAndItsNakStillLeaves) {
  rc_.post_recv(1);
  queue_response();
  rc_->responses.queue_reply(Psn(5), wire::Aeth::nak(wire::NakCode::remote_access));
  dispatcher_.apply(*rc_, Outcome::wake() | Outcome::fail(Failure::responder, AsyncEventType::qp_access_error));
  EXPECT_EQ(rc_->state, QpState::error);
  EXPECT_EQ(bare_.events.seen, (Events{{AsyncEventType::qp_access_error, 0x11}}));
  EXPECT_TRUE(rc_->responses.reply_pending());
  EXPECT_TRUE(rc_->responses.has_jobs()) << "responses before the refused request are due";
  EXPECT_EQ(dispatcher_.run_queue().pop(), &*rc_);
  flush();
  EXPECT_EQ(completions(rc_), std::vector<WcStatus>{WcStatus::flushed});
}

TEST_F(Dispatching, APlainFailureDropsResponsesToo) {
  queue_response();
  dispatcher_.apply(*rc_, Outcome::fail(Failure::plain));
  EXPECT_EQ(rc_->state, QpState::error);
  EXPECT_FALSE(rc_->responses.has_jobs());
  EXPECT_TRUE(bare_.events.seen.empty());
}

TEST_F(Dispatching, ASendQueueFailureLeavesReceivingAlone) {
  fetch(uc_, 2);
  uc_.post_recv(3);
  dispatcher_.apply(*uc_, Outcome::fail(Failure::send_queue, WcStatus::local_protection_error));
  EXPECT_EQ(uc_->state, QpState::sqe);
  flush();
  EXPECT_EQ(completions(uc_), (std::vector<WcStatus>{WcStatus::local_protection_error, WcStatus::flushed}));
  EXPECT_EQ(uc_->rx.rq.available(), 1u);
}

// The application posts more in SQE, and leaves it before the flush has come so far.
TEST_F(Dispatching, AFlushAfterSqeEndsWhereTheQueueEndedThen) {
  fetch(uc_, 3);
  dispatcher_.apply(*uc_, Outcome::fail(Failure::send_queue, WcStatus::local_protection_error));
  uc_.post_send(3);
  dispatcher_.apply(*uc_, apply_state(bare_.ctx, *uc_, QpState::rts));
  uc_.post_send(4);
  EXPECT_TRUE(uc_->flushing);
  flush();
  EXPECT_FALSE(uc_->flushing);
  EXPECT_EQ(completions(uc_), (std::vector<WcStatus>{WcStatus::local_protection_error, WcStatus::flushed,
                                                     WcStatus::flushed, WcStatus::flushed}));
  EXPECT_EQ(uc_->tx.sq.available(), 1u) << "posted in RTS";
  EXPECT_EQ(dispatcher_.run_queue().pop(), &*uc_);
}

TEST_F(Dispatching, AnOverrunFlushesWhenTheQueuePairIsServedNext) {
  fetch(rc_, 1);
  dispatcher_.apply(*rc_, Outcome::fail(Failure::cq_overrun));
  EXPECT_EQ(rc_->state, QpState::error);
  EXPECT_EQ(bare_.events.seen, (Events{{AsyncEventType::qp_fatal, 0x11}}));
  EXPECT_TRUE(completions(rc_).empty());
  EXPECT_EQ(dispatcher_.run_queue().pop(), &*rc_);
}

// The flush of a UC queue pair finds the completion queue full: a second failure, and the end.
TEST_F(Dispatching, AnOverrunDuringAFlushIsTheLastFailure) {
  BareQp full(0x13, QpType::uc, 1);
  full->state = QpState::rts;
  fetch(full, 3);
  dispatcher_.apply(*full, Outcome::fail(Failure::send_queue, WcStatus::local_protection_error));
  flush();
  EXPECT_EQ(full->state, QpState::error);
  EXPECT_EQ(completions(full), std::vector<WcStatus>{WcStatus::local_protection_error});
  EXPECT_EQ(bare_.events.seen, (Events{{AsyncEventType::cq_error, 0x13}, {AsyncEventType::qp_fatal, 0x13}}));
  EXPECT_EQ(dispatcher_.run_queue().pop(), &*full);
}

TEST_F(Dispatching, AFailureStopsTimersThatTheSameOutcomeSet) {
  rc_->tx.recovery->discovery.begin(Retransmission::automatic, 1);
  rc_->tx.recovery->discovery.await(kNow);
  dispatcher_.apply(*rc_, Outcome::act(Outcome::kHelloTimer) | Outcome::fail(Failure::plain));
  EXPECT_FALSE(rc_->cold->hello_timer.armed());
  EXPECT_EQ(rc_->tx.recovery->discovery.next_hello(), kNever);
}

TEST_F(Dispatching, AQueuePairInErrorFailsNoMore) {
  dispatcher_.apply(*rc_, Outcome::fail(Failure::plain));
  flush();
  rc_.post_recv(1);
  dispatcher_.apply(*rc_, Outcome::fail(Failure::requester, WcStatus::retry_exceeded));
  EXPECT_TRUE(completions(rc_).empty());
  EXPECT_EQ(rc_->state, QpState::error);
}

}  // namespace
}  // namespace uroce::transport
