#include "transport/loss/loss_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <vector>

namespace uroce::transport {
namespace {

// Moments are kept in units of 64 ns, so times here are multiples of that.
constexpr Nanos kTick{64};
constexpr Nanos kRtt{6'400};
constexpr Psn kFirstSent{0xfffffc};  // PSNs wrap after four packets

using Offsets = std::vector<uint32_t>;

// A sender and its detector. PSNs are named by their offset from kFirstSent. Requests take one PSN unless said
// otherwise.
class LossDetection : public ::testing::Test {
 protected:
  LossDetection() { loss_.begin_at(kFirstSent); }

  void send(uint32_t packets) {
    for (; packets > 0; --packets, ++sent_, now_ += kTick) loss_.on_sent(sent_, false, now_);
  }
  void send_again(uint32_t offset) {
    loss_.take_lost(kFirstSent + offset);
    loss_.on_sent(kFirstSent + offset, true, now_);
    now_ += kTick;
  }
  // A SACK for all packets before `base` and for those in `beyond`.
  wire::Sack sack(uint32_t base, std::initializer_list<uint32_t> beyond) const {
    wire::Sack s{};
    s.base = kFirstSent + base;
    for (const uint32_t offset : beyond) {
      const uint32_t bit = offset - base - 1;
      s.words = std::max(s.words, bit / 64 + 1);
      s.bitmap[bit / 64] |= uint64_t{1} << bit % 64;
    }
    return s;
  }
  // The SACK arrives. Returns how many packets it reports for the first time.
  uint32_t receive(uint32_t base, std::initializer_list<uint32_t> beyond = {}) {
    const uint32_t news = loss_.on_sack(sack(base, beyond), una_, una_);
    loss_.forget(una_, static_cast<uint32_t>(distance(kFirstSent + base, una_)));
    una_ = kFirstSent + base;
    return news;
  }
  auto find() const {
    return [this](Psn psn) -> std::optional<RequestSpan> {
      for (const RequestSpan& read : reads_) {
        if (distance(psn, read.first) >= 0 && distance(psn, read.end) < 0) return read;
      }
      if (distance(psn, sent_) >= 0) return std::nullopt;
      return RequestSpan{.first = psn, .end = psn + 1};
    };
  }
  bool detect(bool selective = true) { return loss_.detect_overtaken(una_, una_, selective, now_, find()); }
  Offsets lost() const {
    Offsets out;
    for (uint32_t i = 0; i < PsnSet::kSize; ++i) {
      if (loss_.is_lost(kFirstSent + i)) out.push_back(i);
    }
    return out;
  }

  LossDetector loss_{256};
  Psn una_ = kFirstSent;
  Psn sent_ = kFirstSent;
  Nanos now_ = std::chrono::milliseconds(5);
  std::vector<RequestSpan> reads_;
};

// --- Overtaking ---------------------------------------------------------------------------------------------------

TEST_F(LossDetection, APacketIsLostWhenOneThreePlacesBehindItHasArrived) {
  send(8);
  EXPECT_EQ(receive(0, {1, 2}), 2u);
  EXPECT_FALSE(detect());
  EXPECT_EQ(receive(0, {1, 2, 3}), 1u);
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), Offsets{0});
  EXPECT_FALSE(detect()) << "it is marked once";
}

TEST_F(LossDetection, AStandardPeerDropsWhatIsOutOfOrderSoOnePlaceIsEnough) {
  send(8);
  receive(0, {1});
  EXPECT_TRUE(detect(false));
  EXPECT_EQ(lost(), Offsets{0});
}

TEST_F(LossDetection, EachHoleIsJudgedByItself) {
  send(10);
  receive(0, {1, 2, 4, 5});
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), Offsets{0}) << "packet 3 was overtaken by two only";
  receive(0, {1, 2, 4, 5, 6});
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), (Offsets{0, 3}));
}

TEST_F(LossDetection, AnAckInOrderSaysWhatASackSays) {
  LossDetector other(256);
  other.begin_at(kFirstSent);
  for (uint32_t i = 0; i < 8; ++i) other.on_sent(kFirstSent + i, false, now_ + kTick * i);
  send(8);
  now_ += kRtt;
  const Nanos rtt = kRtt + kTick * 5;
  EXPECT_EQ(loss_.sample_plain_ack(kFirstSent + 3, sent_, now_), rtt);
  wire::Sack same = sack(4, {});
  same.echo = kFirstSent + 3;
  EXPECT_EQ(other.on_echo(same, sent_, now_), rtt);
  EXPECT_EQ(other.on_sack(same, kFirstSent, kFirstSent), 4u);
  EXPECT_EQ(loss_.highest(), other.highest());
  EXPECT_EQ(loss_.rtt().smoothed(), other.rtt().smoothed());
}

TEST_F(LossDetection, AnAckSaysMoreThanATimeAfterARetransmissionOrOutOfOrder) {
  send(8);
  send_again(2);
  EXPECT_EQ(loss_.sample_plain_ack(kFirstSent + 2, sent_, now_), Nanos(0)) << "it was sent twice";
  EXPECT_NE(loss_.sample_plain_ack(kFirstSent + 3, sent_, now_), Nanos(0));
  EXPECT_EQ(loss_.sample_plain_ack(kFirstSent + 1, sent_, now_), Nanos(0)) << "it is older than the newest";
  EXPECT_EQ(loss_.sample_plain_ack(kFirstSent + 9, sent_, now_), Nanos(0)) << "it was never sent";
  receive(4, {6});
  EXPECT_EQ(loss_.sample_plain_ack(kFirstSent + 7, sent_, now_), Nanos(0)) << "6 has overtaken 4 and 5";
}

TEST_F(LossDetection, WhatWasSentAndNotOvertakenIsNotLost) {
  send(10);
  receive(3);
  EXPECT_FALSE(detect());
  EXPECT_TRUE(lost().empty());
}

TEST_F(LossDetection, AnArrivalTakesAPacketOffTheLostOnes) {
  send(8);
  receive(0, {2, 3, 4});
  detect();
  EXPECT_EQ(lost(), (Offsets{0, 1}));
  receive(0, {1, 2, 3, 4});
  EXPECT_EQ(lost(), Offsets{0});
  receive(5);
  EXPECT_TRUE(lost().empty());
}

TEST_F(LossDetection, LostPacketsAreFoundAcrossTheWrapOfPsns) {
  send(20);
  receive(0, {1, 2, 3, 4, 6, 7, 8, 9, 10});
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), (Offsets{0, 5}));
  EXPECT_EQ(loss_.next_lost(kFirstSent, 20), 0u);
  EXPECT_EQ(loss_.next_lost(kFirstSent + 1, 19), 4u);
  EXPECT_EQ(loss_.next_lost(kFirstSent + 1, 3), 3u) << "none of the next three";
}

// --- Retransmissions ------------------------------------------------------------------------------------------------

TEST_F(LossDetection, ARetransmissionIsLostAfterARoundTripWhenALaterPacketHasArrived) {
  loss_.sample_rtt(kRtt);
  ASSERT_EQ(loss_.recency(), 2 * kRtt);
  send(6);
  receive(0, {1, 2, 3, 4, 5});
  ASSERT_TRUE(detect());
  const Nanos again = now_;
  send_again(0);
  send(1);  // packet 6, later than the retransmission
  receive(0, {1, 2, 3, 4, 5, 6});
  now_ = again + loss_.recency() - kTick;
  EXPECT_FALSE(detect()) << "its SACK may still be under way";
  now_ = again + loss_.recency();
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), Offsets{0});
}

TEST_F(LossDetection, TimeAloneDoesNotMakeARetransmissionLost) {
  loss_.sample_rtt(kRtt);
  send(6);
  receive(0, {1, 2, 3, 4, 5});
  ASSERT_TRUE(detect());
  send_again(0);
  now_ += 100 * kRtt;
  EXPECT_FALSE(detect()) << "nothing that was sent later has arrived";
}

TEST_F(LossDetection, TheEchoOfARetransmissionShowsThatAnEarlierOneIsLost) {
  loss_.sample_rtt(kRtt);
  send(8);
  receive(0, {2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(detect());
  const Nanos again = now_;
  send_again(0);
  send_again(1);
  now_ = again + 2 * kRtt;
  wire::Sack s = sack(0, {1, 2, 3, 4, 5, 6, 7});
  s.echo = kFirstSent + 1;
  s.echo_tag = 1;
  EXPECT_EQ(loss_.on_echo(s, sent_, now_), std::optional(2 * kRtt - kTick));
  loss_.on_sack(s, una_, una_);
  now_ = again + loss_.recency() + kTick;
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), Offsets{0});
}

TEST_F(LossDetection, CountsHowOftenAPacketWasSentAndWhy) {
  EXPECT_EQ(loss_.on_sent(kFirstSent, false, now_), 0u);
  loss_.mark_lost(kFirstSent, Cause::hole);
  EXPECT_EQ(loss_.on_sent(kFirstSent, true, now_), 1u);
  loss_.set_cause(Cause::nak);
  EXPECT_EQ(loss_.on_sent(kFirstSent, true, now_), 2u);
  EXPECT_EQ(loss_.on_sent(kFirstSent, true, now_), 3u);
  EXPECT_EQ(loss_.counts().of(Cause::hole), 1u);
  EXPECT_EQ(loss_.counts().of(Cause::nak), 2u);
  EXPECT_EQ(loss_.counts().of(Cause::probe), 0u);
  EXPECT_EQ(loss_.on_sent(kFirstSent, false, now_), 0u) << "another packet, once round the ring";
}

TEST_F(LossDetection, APacketThatWasNeverTheFirstOfARequestIsSentAgainAllTheSame) {
  EXPECT_EQ(loss_.on_sent(kFirstSent, true, now_), 1u) << "a part of a READ's response";
  EXPECT_EQ(loss_.on_sent(kFirstSent, true, now_), 2u);
}

TEST_F(LossDetection, AfterASilenceTheAnswerToTheNewestPacketShowsThatTheRestIsLost) {
  send(3);
  wire::Sack s = sack(1, {});
  s.echo = kFirstSent;
  s.echo_tag = 1;
  const auto resend = [&](Cause cause) {
    loss_.mark_lost(kFirstSent, cause);
    send_again(0);
    loss_.note_retransmission(kFirstSent, 1, sent_);
  };
  EXPECT_FALSE(loss_.shows_rest_lost(s, sent_));
  resend(Cause::hole);
  EXPECT_FALSE(loss_.shows_rest_lost(s, sent_)) << "later packets may be on their way";
  for (const Cause cause : {Cause::probe, Cause::timeout}) {
    resend(cause);
    loss_.set_cause(Cause::hole);
    EXPECT_TRUE(loss_.shows_rest_lost(s, sent_)) << "what is found later does not count";
  }
  s.echo_tag = 2;
  EXPECT_FALSE(loss_.shows_rest_lost(s, sent_)) << "another copy";
  s.echo_tag = 1;
  s.echo = kFirstSent + 1;
  EXPECT_FALSE(loss_.shows_rest_lost(s, sent_)) << "another packet";
  s.echo = kFirstSent;
  send(1);
  EXPECT_FALSE(loss_.shows_rest_lost(s, sent_)) << "one more has left since";
}

TEST_F(LossDetection, AfterASilenceAllThatTheAnswerDoesNotReportIsLost) {
  send(5);
  for (const uint32_t arrived : {1u, 2u}) receive(0, {arrived});
  EXPECT_FALSE(detect()) << "so few may overtake";
  EXPECT_TRUE(loss_.mark_unreported(una_, una_, sent_, find()));
  EXPECT_EQ(lost(), (Offsets{0, 3, 4}));
  EXPECT_FALSE(loss_.mark_unreported(una_, una_, sent_, find())) << "none is new";
}

TEST_F(LossDetection, TheNumberOfRetransmissionsSaturates) {
  loss_.on_sent(kFirstSent, false, now_);
  uint16_t times = 0;
  for (int i = 0; i < 70'000; ++i) times = loss_.on_sent(kFirstSent, true, now_);
  EXPECT_EQ(times, UINT16_MAX - 1);
}

// --- Reordering -----------------------------------------------------------------------------------------------------

TEST_F(LossDetection, ALatePacketTeachesHowMuchTheNetworkReorders) {
  EXPECT_EQ(loss_.reordering(true), 3u);
  EXPECT_EQ(loss_.reordering(false), 1u);
  send(40);
  receive(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  EXPECT_TRUE(detect());
  receive(11);  // packet 0 has come, though it was never sent again
  EXPECT_EQ(loss_.reordering(true), 13u) << "ten, a quarter more, and one";
  EXPECT_EQ(loss_.reordering(false), 13u);
  receive(11, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  EXPECT_FALSE(detect()) << "overtaken by twelve";
  receive(11, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24});
  EXPECT_TRUE(detect());
}

// Packets that arrive behind a hole are counted. Those that only a SACK's base acknowledges are not.
TEST_F(LossDetection, ReorderingIsUnlearntAfterManyPacketsInOrder) {
  loss_.on_late(kFirstSent, kFirstSent + 11);
  ASSERT_EQ(loss_.reordering(true), 13u);
  constexpr uint32_t kForgetAfter = 16'384;
  constexpr uint32_t kRound = 64;
  for (uint32_t base = 0; base < kForgetAfter; base += kRound) {
    ASSERT_EQ(loss_.reordering(true), 13u) << base;
    send(kRound);
    wire::Sack s = sack(base, {});  // the first packet of the round is lost, the others arrive
    s.words = 1;
    s.bitmap[0] = ~uint64_t{0} >> 1;
    ASSERT_EQ(loss_.on_sack(s, una_, una_), kRound - 1);
    send_again(base);
    ASSERT_EQ(receive(base + kRound), 1u);
  }
  EXPECT_EQ(loss_.reordering(true), 10u) << "a quarter less";
}

TEST_F(LossDetection, LearntReorderingIsBounded) {
  loss_.on_late(kFirstSent, kFirstSent + 100'000);
  EXPECT_EQ(loss_.reordering(true), 512u);
  loss_.on_late(kFirstSent, kFirstSent + 5);
  EXPECT_EQ(loss_.reordering(true), 512u) << "less of it teaches nothing";
}

TEST_F(LossDetection, ARetransmissionThatWasNotNeededRaisesTheReordering) {
  loss_.mark_lost(kFirstSent, Cause::timeout);
  loss_.on_spurious(true);
  EXPECT_EQ(loss_.reordering(true), 3u) << "a slow peer is no reordering";
  loss_.mark_lost(kFirstSent, Cause::hole);
  loss_.on_spurious(true);
  EXPECT_EQ(loss_.reordering(true), 4u);
}

// --- SACKs ----------------------------------------------------------------------------------------------------------

TEST_F(LossDetection, ASackCountsEachPacketOnce) {
  send(20);
  EXPECT_EQ(receive(0, {1, 5}), 2u);
  EXPECT_EQ(receive(0, {1, 5}), 0u);
  EXPECT_EQ(loss_.not_in_flight(), 2u);
  EXPECT_EQ(receive(3, {5, 9}), 3u) << "0, 2 and 9; 1 and 5 were known";
  EXPECT_EQ(loss_.highest(), kFirstSent + 10);
  EXPECT_EQ(loss_.not_in_flight(), 2u);
  EXPECT_EQ(receive(20), 15u);
  EXPECT_EQ(loss_.not_in_flight(), 0u);
}

TEST_F(LossDetection, TheBitmapReachesThroughAllItsWords) {
  LossDetector loss(1024);
  loss.begin_at(kFirstSent);
  const wire::Sack s = sack(0, {1, 64, 65, 128, 1000, 1023});
  EXPECT_EQ(loss.on_sack(s, kFirstSent, kFirstSent), 6u);
  EXPECT_EQ(loss.highest(), kFirstSent + 1024);
  EXPECT_EQ(loss.not_in_flight(), 6u);
}

// The SACK's base lies beyond una while responses are missing. The sets reach kSize from una and no further.
TEST_F(LossDetection, BitsBeyondTheWindowAreIgnored) {
  LossDetector loss(1024);
  loss.begin_at(kFirstSent);
  EXPECT_EQ(loss.on_sack(sack(100, {1023, 1024, 1100}), kFirstSent, kFirstSent), 101u);
  EXPECT_EQ(loss.highest(), kFirstSent + 1024);
}

TEST_F(LossDetection, OnlyAcknowledgedPacketsAreForgotten) {
  send(20);
  receive(0, {4, 5, 6, 12});
  loss_.mark_lost(kFirstSent, Cause::hole);
  loss_.mark_lost(kFirstSent + 9, Cause::hole);
  loss_.forget(kFirstSent, 6);
  EXPECT_EQ(lost(), Offsets{9});
  EXPECT_EQ(loss_.not_in_flight(), 3u);  // 6, 9 and 12
}

TEST_F(LossDetection, ANewPeerHasKeptNothing) {
  send(10);
  receive(2, {4, 5, 6});
  detect();
  loss_.on_new_peer(kFirstSent + 2);
  EXPECT_EQ(loss_.highest(), kFirstSent + 2);
  EXPECT_EQ(lost(), (Offsets{2, 3})) << "what was lost is still to be sent again";
  EXPECT_EQ(loss_.not_in_flight(), 2u);
  loss_.forget_all();
  EXPECT_EQ(loss_.not_in_flight(), 0u);
}

TEST_F(LossDetection, AResetForgetsEverything) {
  loss_.sample_rtt(kRtt);
  send(10);
  receive(0, {1, 2, 3, 4});
  detect();
  loss_.on_late(kFirstSent, kFirstSent + 20);
  loss_.reset();
  EXPECT_TRUE(lost().empty());
  EXPECT_EQ(loss_.not_in_flight(), 0u);
  EXPECT_FALSE(loss_.rtt().known());
  EXPECT_EQ(loss_.reordering(true), 3u);
  EXPECT_EQ(loss_.sample_rtt(kFirstSent + 9, sent_, now_ + kRtt), Nanos(0))
      << "when packets were sent is forgotten too";
}

// --- Round-trip times -----------------------------------------------------------------------------------------------

TEST_F(LossDetection, AnAcknowledgedPacketShowsTheRoundTrip) {
  const Nanos at = now_;
  send(2);
  EXPECT_EQ(loss_.sample_rtt(kFirstSent, sent_, at + kRtt), kRtt);
  EXPECT_EQ(loss_.rtt().smoothed(), kRtt);
  EXPECT_EQ(loss_.sample_rtt(kFirstSent + 1, sent_, at + kTick), Nanos(1)) << "the least that counts";
}

// Karn: it is unknown which copy was acknowledged.
TEST_F(LossDetection, ARetransmittedPacketShowsNoRoundTrip) {
  send(1);
  send_again(0);
  EXPECT_EQ(loss_.sample_rtt(kFirstSent, sent_, now_ + kRtt), Nanos(0));
  EXPECT_FALSE(loss_.rtt().known());
}

TEST_F(LossDetection, PacketsThatTheRingDoesNotRememberShowNoRoundTrip) {
  alignas(Departure) std::array<std::byte, 256 * sizeof(Departure)> block;
  loss_.lengthen(block.data(), sent_);
  send(300);
  EXPECT_EQ(loss_.sample_rtt(kFirstSent + 43, sent_, now_), Nanos(0)) << "older than the newest 256";
  EXPECT_NE(loss_.sample_rtt(kFirstSent + 44, sent_, now_), Nanos(0));
  EXPECT_EQ(loss_.sample_rtt(kFirstSent + 300, sent_, now_), Nanos(0)) << "not sent yet";
}

TEST_F(LossDetection, AnEchoShowsTheRoundTripWithoutThePeersDelay) {
  const Nanos at = now_;
  send(1);
  wire::Sack s = sack(1, {});
  s.echo = kFirstSent;
  s.hold = 1'000;
  EXPECT_EQ(loss_.on_echo(s, sent_, at + kRtt), std::optional(kRtt - Nanos(1'000)));
  s.hold = UINT32_MAX;
  EXPECT_EQ(loss_.on_echo(s, sent_, at + kRtt), std::optional(Nanos(0))) << "too long to say";
}

TEST_F(LossDetection, AnEchoFromBeforeItsPacketWasSentIsNotBelieved) {
  const Nanos at = now_;
  send(1);
  wire::Sack s = sack(1, {});
  s.echo = kFirstSent;
  s.hold = static_cast<uint32_t>(kRtt.count()) + 128;
  EXPECT_EQ(loss_.on_echo(s, sent_, at + kRtt), std::optional(Nanos(1))) << "two clocks' rounding";
  ++s.hold;
  EXPECT_EQ(loss_.on_echo(s, sent_, at + kRtt), std::nullopt);
}

TEST_F(LossDetection, AnEchoCountsOnlyForTheCopyThatItNames) {
  send(4);
  send_again(0);
  wire::Sack s = sack(0, {1, 2, 3});
  s.echo = kFirstSent;
  s.echo_tag = 2;
  EXPECT_EQ(loss_.on_echo(s, sent_, now_ + kRtt), std::optional(Nanos(0))) << "sent again once, not twice";
  s.echo_tag = 1;
  EXPECT_EQ(loss_.on_echo(s, sent_, now_ - kTick + kRtt), std::optional(kRtt));
  s.echo = kFirstSent + 4;
  EXPECT_EQ(loss_.on_echo(s, sent_, now_ + kRtt), std::optional(Nanos(0))) << "not sent yet";
}

TEST_F(LossDetection, TheEchoOfAFirstCopyThatWasTakenForLostTeachesReordering) {
  send(12);
  receive(0, {1, 2, 3, 4, 5, 6, 7, 8});
  detect();
  send_again(0);
  wire::Sack s = sack(9, {});
  s.echo = kFirstSent;
  s.echo_tag = 0;
  EXPECT_EQ(loss_.on_echo(s, sent_, now_), std::optional(Nanos(0)));
  EXPECT_EQ(loss_.reordering(true), 11u) << "overtaken by eight";
}

// --- Loss events ----------------------------------------------------------------------------------------------------

TEST_F(LossDetection, CongestionControlHearsOfALossOncePerRoundTrip) {
  loss_.sample_rtt(kRtt);
  EXPECT_TRUE(loss_.begin_loss_event(now_));
  EXPECT_FALSE(loss_.begin_loss_event(now_));
  EXPECT_FALSE(loss_.begin_loss_event(now_ + kRtt - Nanos(1)));
  EXPECT_TRUE(loss_.begin_loss_event(now_ + kRtt));
}

TEST_F(LossDetection, AMillisecondIsAssumedUntilTheRoundTripIsKnown) {
  EXPECT_EQ(loss_.recency(), std::chrono::microseconds(1'250));
  EXPECT_TRUE(loss_.begin_loss_event(now_));
  EXPECT_FALSE(loss_.begin_loss_event(now_ + std::chrono::microseconds(999)));
  EXPECT_TRUE(loss_.begin_loss_event(now_ + std::chrono::milliseconds(1)));
}

// --- READs ----------------------------------------------------------------------------------------------------------

TEST_F(LossDetection, AReadOfManyPsnsIsOnePacket) {
  reads_ = {{.first = kFirstSent + 2, .end = kFirstSent + 102, .is_read = true, .responded = true}};
  sent_ = kFirstSent + 102;
  send(3);
  receive(0, {102, 103, 104});
  EXPECT_TRUE(detect());
  EXPECT_EQ(lost(), (Offsets{0, 1, 2})) << "two WRITEs and the READ's request";
}

TEST_F(LossDetection, AReadThatWasExecutedIsNotLostThoughItsResponsesAreMissing) {
  reads_ = {{.first = kFirstSent, .end = kFirstSent + 10, .is_read = true, .responded = true}};
  sent_ = kFirstSent + 10;
  send(6);
  const wire::Sack s = sack(5, {11, 12, 13, 14});
  loss_.on_sack(s, una_, una_);
  // The peer expects PSN 5, in the middle of the READ: its request has arrived.
  const bool any =
      loss_.detect_overtaken(kFirstSent, kFirstSent + 5, true, now_, [&](Psn psn) -> std::optional<RequestSpan> {
        if (distance(psn, reads_[0].end) < 0) return reads_[0];
        return RequestSpan{.first = psn, .end = psn + 1};
      });
  EXPECT_TRUE(any);
  EXPECT_EQ(lost(), Offsets{10});
}

}  // namespace
}  // namespace uroce::transport
