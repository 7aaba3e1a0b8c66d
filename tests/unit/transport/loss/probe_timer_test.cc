#include "transport/loss/probe_timer.h"

#include <gtest/gtest.h>

#include "transport/loss/retry_budget.h"

namespace uroce::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint8_t kTimeout = 14;  // 67 ms
constexpr uint8_t kRetries = 7;
constexpr Nanos kStart = milliseconds(10);

RttEstimator rtt_of(Nanos sample) {
  RttEstimator rtt;
  rtt.sample(sample);
  return rtt;
}

TEST(ProbeTimer, TheFirstWaitIsTwoRoundTripsAndTheirVariation) {
  const ProbeTimer timer;
  EXPECT_EQ(timer.wait(rtt_of(microseconds(100)), kTimeout), microseconds(400));  // variation: 50
  EXPECT_EQ(timer.wait(rtt_of(microseconds(1)), kTimeout), microseconds(8)) << "the least";
  EXPECT_EQ(timer.wait(RttEstimator{}, kTimeout), milliseconds(2)) << "1 ms is assumed";
}

TEST(ProbeTimer, TheFirstWaitAfterAPauseIsLongerByTheNapOfAnIdlePeer) {
  const RttEstimator rtt = rtt_of(microseconds(100));
  ProbeTimer timer;
  timer.on_progress(kStart);
  timer.on_first_sent(kStart + microseconds(800));
  EXPECT_EQ(timer.wait(rtt, kTimeout), microseconds(400 + 100)) << "an eighth of the pause";
  timer.on_first_sent(kStart + seconds(1));
  EXPECT_EQ(timer.wait(rtt, kTimeout), microseconds(400 + 4000)) << "the longest nap";
  timer.on_progress(kStart + seconds(1));
  EXPECT_EQ(timer.wait(rtt, kTimeout), microseconds(400)) << "the peer is awake";
}

TEST(ProbeTimer, PeersThatShareTheirProcessorsGetTheirDelayInEachFirstWait) {
  const RttEstimator rtt = rtt_of(microseconds(100));
  constexpr Nanos kDelay = milliseconds(20);
  ProbeTimer timer;
  EXPECT_EQ(timer.wait(rtt, kTimeout, kDelay), microseconds(400) + kDelay);
  timer.on_first_sent(kStart + seconds(1));
  EXPECT_EQ(timer.wait(rtt, kTimeout, kDelay), microseconds(400) + kDelay) << "the nap of 4 ms is in it";
  timer.on_progress(kStart + seconds(1));
  EXPECT_EQ(timer.wait(rtt, kTimeout, kDelay), microseconds(400) + kDelay) << "in a flow of packets as well";
  timer.on_expiry(kStart, kTimeout, kRetries);
  EXPECT_EQ(timer.wait(rtt, kTimeout, kDelay), microseconds(800)) << "later waits are as ever";
  EXPECT_EQ(ProbeTimer{}.wait(rtt, 1, kDelay), ack_timeout(1)) << "the QP's timeout bounds it";
}

TEST(ProbeTimer, LateAnswersMakeItPatientAfterPauses) {
  const RttEstimator rtt = rtt_of(microseconds(100));
  const auto first_wait = [&rtt](ProbeTimer timer) {
    timer.on_progress(kStart);
    EXPECT_EQ(timer.wait(rtt, kTimeout), microseconds(400)) << "in a flow of packets";
    timer.on_first_sent(kStart);
    return timer.wait(rtt, kTimeout);
  };
  ProbeTimer timer;
  timer.on_late(rtt);
  EXPECT_EQ(first_wait(timer), microseconds(400 + 400));
  timer.on_late(rtt);
  EXPECT_EQ(first_wait(timer), microseconds(400 + 1200));
  for (int i = 0; i < 20; ++i) timer.on_late(rtt);
  EXPECT_EQ(first_wait(timer), microseconds(400 + 8000)) << "the most";
  for (int i = 0; i < 1024; ++i) timer.on_progress(kStart);
  EXPECT_EQ(first_wait(timer), microseconds(400 + 6000)) << "a quarter is forgotten";
  timer.on_first_sent(kStart);
  timer.on_expiry(kStart, kTimeout, kRetries);
  EXPECT_EQ(timer.wait(rtt, kTimeout), microseconds(800)) << "later waits are as ever";
}

TEST(ProbeTimer, AWaitThatEndedWhileThisEngineDidNotRunIsExcusedOnce) {
  ProbeTimer timer;
  EXPECT_FALSE(timer.excuses(microseconds(100))) << "a tick of the wheel, a long round";
  EXPECT_TRUE(timer.excuses(microseconds(101)));
  EXPECT_FALSE(timer.excuses(seconds(1)));
  timer.on_progress(kStart);
  EXPECT_TRUE(timer.excuses(seconds(1)));
}

TEST(ProbeTimer, EachLaterWaitIsTwiceAsLong) {
  ProbeTimer timer;
  const RttEstimator rtt = rtt_of(microseconds(100));
  timer.on_progress(kStart);
  for (int expiry = 1; expiry <= 5; ++expiry) {
    timer.on_expiry(kStart, 0, kRetries);
    EXPECT_EQ(timer.wait(rtt, 0), microseconds(400) * (1 << expiry)) << expiry;
  }
  timer.on_progress(kStart);
  EXPECT_EQ(timer.wait(rtt, 0), microseconds(400));
}

TEST(ProbeTimer, AfterAProbeNoWaitIsShorterThanFiftyMicroseconds) {
  ProbeTimer timer;
  timer.on_expiry(kStart, 0, kRetries);
  EXPECT_EQ(timer.wait(rtt_of(microseconds(1)), 0), microseconds(50));
  timer.on_expiry(kStart, 0, kRetries);
  EXPECT_EQ(timer.wait(rtt_of(microseconds(1)), 0), microseconds(100));
}

TEST(ProbeTimer, NoWaitIsLongerThanTheTimeoutOrASecond) {
  ProbeTimer timer;
  const RttEstimator rtt = rtt_of(microseconds(100));
  EXPECT_EQ(timer.wait(rtt, 5), ack_timeout(5)) << "131 us";
  for (int i = 0; i < 40; ++i) timer.on_expiry(kStart, 0, kRetries);
  EXPECT_EQ(timer.wait(rtt, 0), seconds(1));
  EXPECT_EQ(timer.wait(rtt, 31), seconds(1));
  EXPECT_EQ(timer.wait(rtt, kTimeout), ack_timeout(kTimeout));
}

TEST(ProbeTimer, AsksForAProbeThenReportsATimeoutOnce) {
  ProbeTimer timer;
  timer.on_progress(kStart);
  for (uint32_t expiry = 1; expiry <= 6; ++expiry) {
    const SilenceVerdict verdict = timer.on_expiry(kStart + milliseconds(1), kTimeout, kRetries);
    EXPECT_EQ(verdict.probe, expiry == 1) << expiry;
    EXPECT_EQ(verdict.report_timeout, expiry == 2) << expiry;
    EXPECT_FALSE(verdict.assume_forgotten) << expiry;
    EXPECT_FALSE(verdict.give_up) << expiry;
  }
  timer.on_progress(kStart + milliseconds(2));
  EXPECT_TRUE(timer.on_expiry(kStart + milliseconds(3), kTimeout, kRetries).probe);
}

TEST(ProbeTimer, AfterATimeoutOfSilenceThePeerMayHaveForgotten) {
  ProbeTimer timer;
  timer.on_progress(kStart);
  const Nanos timeout = ack_timeout(kTimeout);
  EXPECT_FALSE(timer.on_expiry(kStart + timeout, kTimeout, kRetries).assume_forgotten);
  EXPECT_FALSE(timer.on_expiry(kStart + timeout, kTimeout, kRetries).assume_forgotten);
  EXPECT_FALSE(timer.on_expiry(kStart + timeout - Nanos(1), kTimeout, kRetries).assume_forgotten);
  EXPECT_TRUE(timer.on_expiry(kStart + timeout, kTimeout, kRetries).assume_forgotten);
}

TEST(ProbeTimer, WithoutATimeoutItIsATenthOfASecondAndThereIsNoEnd) {
  ProbeTimer timer;
  timer.on_progress(kStart);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(timer.on_expiry(kStart + milliseconds(99), 0, kRetries).assume_forgotten);
  }
  const SilenceVerdict verdict = timer.on_expiry(kStart + seconds(1000), 0, kRetries);
  EXPECT_TRUE(verdict.assume_forgotten);
  EXPECT_FALSE(verdict.give_up);
}

TEST(ProbeTimer, GivesUpAfterAsManyTimersAndAsMuchTimeAsGoBackNWould) {
  const Nanos enough = ack_timeout(kTimeout) * (kRetries + 1);
  ProbeTimer slow;
  slow.on_progress(kStart);
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(slow.on_expiry(kStart + enough - Nanos(1), kTimeout, kRetries).give_up) << "too early";
  }
  EXPECT_TRUE(slow.on_expiry(kStart + enough, kTimeout, kRetries).give_up);

  ProbeTimer late;  // polled so rarely that few timers ended
  late.on_progress(kStart);
  for (int i = 1; i <= kRetries; ++i) {
    EXPECT_FALSE(late.on_expiry(kStart + 10 * enough, kTimeout, kRetries).give_up) << i;
  }
  EXPECT_TRUE(late.on_expiry(kStart + 10 * enough, kTimeout, kRetries).give_up);
}

TEST(ProbeTimer, SilenceCountsFromTheFirstPacketAfterAPause) {
  const Nanos enough = ack_timeout(kTimeout) * (kRetries + 1);
  ProbeTimer timer;
  timer.on_progress(kStart);
  timer.on_first_sent(kStart + enough);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(timer.on_expiry(kStart + enough, kTimeout, kRetries).give_up) << i;
  }
}

}  // namespace
}  // namespace uroce::transport
