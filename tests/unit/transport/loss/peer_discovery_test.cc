#include "transport/loss/peer_discovery.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace uroce::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kBegin = seconds(1);
constexpr uint32_t kOurs = 0x11;
constexpr uint32_t kTheirs = 0x22;

// A HELLO of `from`, which counts it as sent.
wire::Hello say(PeerDiscovery& from, Nanos now, uint16_t capacity = 255, bool requests_out = false) {
  const wire::Hello hello = from.hello(capacity);
  from.on_sent(now, requests_out);
  return hello;
}

class Discovery : public ::testing::Test {
 protected:
  // Our HELLO, the peer's answer that names it, and ours that names the peer's.
  void meet() {
    ours_.begin(Retransmission::automatic, kOurs);
    theirs_.begin(Retransmission::automatic, kTheirs);
    theirs_.on_hello(say(ours_, kBegin), kBegin);
    ours_.on_hello(say(theirs_, kBegin, 100), kBegin + microseconds(20));
    theirs_.on_hello(say(ours_, kBegin), kBegin + microseconds(40));
    ASSERT_TRUE(ours_.proven());
    ASSERT_TRUE(theirs_.proven());
  }
  PeerDiscovery ours_;
  PeerDiscovery theirs_;
};

TEST_F(Discovery, TwoPeersProveThemselvesInThreeHellos) {
  ours_.begin(Retransmission::automatic, kOurs);
  theirs_.begin(Retransmission::automatic, kTheirs);

  const wire::Hello first = say(ours_, kBegin, 255);
  EXPECT_EQ(first.epoch, kOurs);
  EXPECT_EQ(first.peer_epoch, 0u);
  EXPECT_TRUE(first.answer);
  const auto heard = theirs_.on_hello(first, kBegin + microseconds(10));
  EXPECT_TRUE(heard.valid);
  EXPECT_TRUE(heard.answer);
  EXPECT_FALSE(heard.proof) << "anybody may have said that";
  EXPECT_FALSE(theirs_.proven());

  const wire::Hello second = say(theirs_, kBegin + microseconds(10), 100);
  EXPECT_EQ(second.epoch, kTheirs);
  EXPECT_EQ(second.peer_epoch, kOurs);
  const auto reply = ours_.on_hello(second, kBegin + microseconds(25));
  ASSERT_TRUE(reply.proof);
  EXPECT_TRUE(reply.answer);
  EXPECT_FALSE(reply.proof->replaces_another);
  EXPECT_EQ(reply.proof->round_trip, std::optional<Nanos>(microseconds(25)));
  EXPECT_EQ(ours_.peer_epoch(), kTheirs);
  EXPECT_EQ(ours_.peer_capacity(), 100u);

  const wire::Hello third = say(ours_, kBegin + microseconds(25), 255);
  EXPECT_EQ(third.peer_epoch, kTheirs);
  EXPECT_FALSE(third.answer);
  const auto last = theirs_.on_hello(third, kBegin + microseconds(40));
  ASSERT_TRUE(last.proof);
  EXPECT_FALSE(last.answer) << "and that is the end of it";
  EXPECT_EQ(theirs_.peer_capacity(), 255u);
  EXPECT_EQ(ours_.next_hello(), kNever);
  EXPECT_EQ(theirs_.next_hello(), kNever);
}

TEST_F(Discovery, WhatIsKnownIsNoNews) {
  meet();
  const auto heard = ours_.on_hello(say(theirs_, kBegin), kBegin);
  EXPECT_TRUE(heard.valid);
  EXPECT_FALSE(heard.proof);
  EXPECT_FALSE(heard.answer);
}

// --- Lost HELLOs ----------------------------------------------------------------------------------------------------

TEST_F(Discovery, WithAutomaticElevenHellosAreSaidWhileRequestsAreOut) {
  ours_.begin(Retransmission::automatic, kOurs);
  std::vector<Nanos> said;
  for (Nanos now = kBegin; now != kNever; now = ours_.next_hello()) {
    if (!said.empty()) {
      EXPECT_TRUE(ours_.on_timer());
    }
    say(ours_, now, 255, true);
    said.push_back(now);
  }
  ASSERT_EQ(said.size(), std::size_t{PeerDiscovery::kHellos});
  for (std::size_t i = 1; i < said.size(); ++i) {
    EXPECT_EQ(said[i] - said[i - 1], milliseconds(1) * (1 << (i - 1))) << i;
  }
  EXPECT_FALSE(ours_.asking());
  ours_.await(said.back() + seconds(1));
  EXPECT_EQ(ours_.next_hello(), kNever) << "more requests make no difference";
}

TEST_F(Discovery, WithSelectiveHellosAreSaidForEverAtMostASecondApart) {
  ours_.begin(Retransmission::selective, kOurs);
  Nanos now = kBegin;
  for (int i = 0; i < 100; ++i) {
    say(ours_, now, 255, false);
    ASSERT_LE(ours_.next_hello() - now, seconds(1));
    now = ours_.next_hello();
    ASSERT_TRUE(ours_.on_timer());
  }
  EXPECT_GT(now - kBegin, seconds(80));
  EXPECT_TRUE(ours_.asking());
}

TEST_F(Discovery, AnIdleQueuePairWaitsForItsFirstRequest) {
  ours_.begin(Retransmission::automatic, kOurs);
  say(ours_, kBegin, 255, false);
  EXPECT_EQ(ours_.next_hello(), kNever);
  ours_.await(kBegin + seconds(7));
  EXPECT_EQ(ours_.next_hello(), kBegin + seconds(7) + milliseconds(1));
  ours_.await(kBegin + seconds(8));
  EXPECT_EQ(ours_.next_hello(), kBegin + seconds(7) + milliseconds(1)) << "it is due already";
  ours_.stop();
  EXPECT_EQ(ours_.next_hello(), kNever);
}

TEST_F(Discovery, ARepeatedHelloTellsNoRoundTrip) {
  ours_.begin(Retransmission::automatic, kOurs);
  theirs_.begin(Retransmission::automatic, kTheirs);
  say(ours_, kBegin, 255, true);  // lost
  const Nanos again = ours_.next_hello();
  ASSERT_TRUE(ours_.on_timer());
  theirs_.on_hello(say(ours_, again, 255, true), again);
  const auto heard = ours_.on_hello(say(theirs_, again), again + microseconds(20));
  ASSERT_TRUE(heard.proof);
  EXPECT_EQ(heard.proof->round_trip, std::nullopt) << "either may have been answered";
  EXPECT_EQ(ours_.next_hello(), kNever);
  EXPECT_FALSE(ours_.on_timer());
}

// The last HELLO is lost, but a SACK that names our epoch shows that its sender has heard us.
TEST_F(Discovery, ASackThatNamesOurEpochProvesThePeerThatWasHeard) {
  ours_.begin(Retransmission::automatic, kOurs);
  theirs_.begin(Retransmission::automatic, kTheirs);
  EXPECT_FALSE(ours_.on_epoch_named(kBegin)) << "nobody has been heard";
  ours_.on_hello(say(theirs_, kBegin, 63), kBegin);
  EXPECT_FALSE(ours_.proven());
  EXPECT_TRUE(ours_.on_epoch_named(kBegin));
  EXPECT_TRUE(ours_.proven());
  EXPECT_EQ(ours_.peer_epoch(), kTheirs);
  EXPECT_EQ(ours_.peer_capacity(), 63u);
  EXPECT_FALSE(ours_.on_epoch_named(kBegin));
}

// --- Peers that are not, or are others ------------------------------------------------------------------------------

TEST_F(Discovery, WithoutABeginningItSaysAndBelievesNothing) {
  EXPECT_FALSE(ours_.asking());
  EXPECT_EQ(ours_.epoch(), 0u);
  theirs_.begin(Retransmission::selective, kTheirs);
  EXPECT_FALSE(ours_.on_hello(say(theirs_, kBegin), kBegin).valid);
  ours_.await(kBegin);
  EXPECT_EQ(ours_.next_hello(), kNever);
  EXPECT_FALSE(ours_.on_timer());
}

TEST_F(Discovery, AHelloForAnotherConnectionIsNotBelieved) {
  ours_.begin(Retransmission::automatic, kOurs);
  const wire::Hello other{.epoch = kTheirs, .peer_epoch = kOurs + 1, .parking = 10, .answer = true};
  EXPECT_FALSE(ours_.on_hello(other, kBegin).valid);
  EXPECT_FALSE(ours_.on_hello(std::nullopt, kBegin).valid) << "malformed";
  EXPECT_FALSE(ours_.proven());
  EXPECT_FALSE(ours_.on_epoch_named(kBegin)) << "it is no candidate either";
}

TEST_F(Discovery, AForgedHelloChangesNothingAboutAProvenPeer) {
  meet();
  const wire::Hello forged{.epoch = 0x66, .peer_epoch = 0, .parking = 1, .answer = true};
  const auto heard = ours_.on_hello(forged, kBegin);
  EXPECT_TRUE(heard.valid);
  EXPECT_FALSE(heard.proof);
  EXPECT_TRUE(ours_.proven());
  EXPECT_EQ(ours_.peer_epoch(), kTheirs);
  EXPECT_EQ(ours_.peer_capacity(), 100u);
  // We ask whether it is true. Our peer does not know that epoch; what it says next settles the matter.
  const wire::Hello question = say(ours_, kBegin);
  EXPECT_EQ(question.peer_epoch, 0x66u);
  EXPECT_TRUE(question.answer);
  EXPECT_FALSE(theirs_.on_hello(question, kBegin).valid);
  EXPECT_FALSE(ours_.on_hello(say(theirs_, kBegin), kBegin).proof);
  EXPECT_EQ(ours_.hello(255).peer_epoch, kTheirs);
  EXPECT_FALSE(ours_.hello(255).answer);
}

TEST_F(Discovery, ThePeersOwnHelloDismissesAForgedOne) {
  meet();
  ours_.on_hello(wire::Hello{.epoch = 0x66, .peer_epoch = 0, .parking = 1, .answer = true}, kBegin);
  ours_.on_hello(wire::Hello{.epoch = kTheirs, .peer_epoch = 0, .parking = 100, .answer = true}, kBegin);
  EXPECT_EQ(ours_.hello(255).peer_epoch, kTheirs);
}

TEST_F(Discovery, APeerThatBeganAnewReplacesTheOldOne) {
  meet();
  PeerDiscovery next;
  next.begin(Retransmission::automatic, 0x33);
  EXPECT_FALSE(ours_.on_hello(say(next, kBegin), kBegin).proof);
  EXPECT_TRUE(next.on_hello(say(ours_, kBegin), kBegin).proof);
  const auto heard = ours_.on_hello(say(next, kBegin, 31), kBegin);
  ASSERT_TRUE(heard.proof);
  EXPECT_TRUE(heard.proof->replaces_another) << "it has kept nothing";
  EXPECT_EQ(ours_.peer_epoch(), 0x33u);
  EXPECT_EQ(ours_.peer_capacity(), 31u);
}

TEST_F(Discovery, BeginsAgainWithTheSameEpoch) {
  meet();
  ours_.begin_again();
  EXPECT_FALSE(ours_.proven());
  EXPECT_TRUE(ours_.asking());
  EXPECT_EQ(ours_.epoch(), kOurs);
  const wire::Hello hello = say(ours_, kBegin, 255, true);
  EXPECT_EQ(hello.peer_epoch, 0u);
  EXPECT_TRUE(hello.answer);
  EXPECT_EQ(ours_.next_hello(), kBegin + milliseconds(1));
  // The peer still knows us.
  theirs_.on_hello(hello, kBegin);
  EXPECT_TRUE(ours_.on_hello(say(theirs_, kBegin), kBegin).proof);
  EXPECT_TRUE(ours_.proven());
}

}  // namespace
}  // namespace uroce::transport
