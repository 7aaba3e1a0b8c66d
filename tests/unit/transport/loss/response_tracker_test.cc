#include "transport/loss/response_tracker.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace uroce::transport {
namespace {

constexpr Psn kFirst{0xfffffa};  // PSNs wrap after six
constexpr bool kUroce = true;
constexpr bool kStandard = false;

using Offsets = std::vector<uint32_t>;

// A requester whose outstanding requests are listed. PSNs are named by their offset from kFirst.
class ResponseTracking : public ::testing::Test {
 protected:
  ResponseTracking() {
    tracker_.begin_at(kFirst);
    loss_.sample_rtt(Nanos(10'000));
  }
  void read(uint32_t packets) { post(packets, {.is_read = true, .responded = true}); }
  void atomic() { post(1, {.is_read = false, .responded = true}); }
  void write(uint32_t packets) { post(packets, {}); }
  // Responses [from, to) have arrived, so that all before them have left the peer.
  void arrive(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) tracker_.add(kFirst + i);
    tracker_.expect_until(kFirst + to);
  }
  bool find(bool peer, uint32_t una = 0) { return find(peer, una, loss_.reordering(peer)); }
  bool find(bool peer, uint32_t una, uint32_t overtaken) {
    std::size_t at = 0;
    return tracker_.find_missing(loss_, kFirst + una, peer, overtaken, now_, [&]() -> std::optional<RequestSpan> {
      while (at < requests_.size() && distance(requests_[at].end, kFirst + una) <= 0) ++at;
      return at < requests_.size() ? std::optional(requests_[at++]) : std::nullopt;
    });
  }
  Offsets lost() const {
    Offsets out;
    for (uint32_t i = 0; i < PsnSet::kSize; ++i) {
      if (loss_.is_lost(kFirst + i)) out.push_back(i);
    }
    return out;
  }
  // The lost ones are asked for again.
  Offsets ask() {
    const Offsets out = lost();
    for (const uint32_t i : out) loss_.take_lost(kFirst + i);
    return out;
  }

  ResponseTracker tracker_;
  LossDetector loss_{1024};
  std::vector<RequestSpan> requests_;
  Nanos now_ = std::chrono::milliseconds(5);

 private:
  void post(uint32_t packets, RequestSpan span) {
    span.first = requests_.empty() ? kFirst : requests_.back().end;
    span.end = span.first + packets;
    requests_.push_back(span);
  }
};

TEST_F(ResponseTracking, KnowsWhatHasArrived) {
  EXPECT_EQ(tracker_.arrived_from(kFirst, 20), 0u);
  arrive(0, 3);
  arrive(5, 9);
  EXPECT_TRUE(tracker_.has(kFirst + 8));
  EXPECT_FALSE(tracker_.has(kFirst + 3));
  EXPECT_EQ(tracker_.arrived_from(kFirst, 20), 3u);
  EXPECT_EQ(tracker_.arrived_from(kFirst, 2), 2u);
  EXPECT_EQ(tracker_.missing_from(kFirst + 3, 20, kFirst), 2u);
  EXPECT_EQ(tracker_.missing_from(kFirst + 9, 11, kFirst), 11u);
  tracker_.forget(kFirst, 6);
  EXPECT_FALSE(tracker_.has(kFirst + 5));
  EXPECT_EQ(tracker_.arrived_from(kFirst + 6, 20), 3u);
  tracker_.forget(kFirst + 6, 3);
  EXPECT_FALSE(tracker_.has(kFirst + 8));
}

// Long READs have more responses under way than there are marks.
TEST_F(ResponseTracking, MarksOfOtherResponsesSayNothingOfLaterOnes) {
  tracker_.add(kFirst + 8);
  const Psn alias = kFirst + 8 + PsnSet::kSize;
  EXPECT_EQ(tracker_.missing_from(alias - 8, 64, kFirst), 64u);
  EXPECT_EQ(tracker_.missing_from(alias - 16, 64, kFirst), 64u);
  EXPECT_EQ(tracker_.missing_from(alias - 8, 2048, kFirst), 2048u);
  EXPECT_EQ(tracker_.missing_from(kFirst + 1, 2048, kFirst), 7u);
  EXPECT_EQ(tracker_.missing_from(alias - 8, 64, kFirst + 9), 8u);
}

TEST_F(ResponseTracking, WhatHasLeftThePeerNeverGoesBack) {
  EXPECT_EQ(tracker_.expected_end(), kFirst);
  tracker_.expect_until(kFirst + 9);
  tracker_.expect_until(kFirst + 4);
  EXPECT_EQ(tracker_.expected_end(), kFirst + 9);
}

TEST_F(ResponseTracking, AResponseThatOneHasOvertakenIsMissingTowardsAStandardPeer) {
  read(10);
  EXPECT_FALSE(find(kStandard));
  arrive(1, 2);
  EXPECT_TRUE(find(kStandard));
  EXPECT_EQ(lost(), Offsets{0});
  EXPECT_FALSE(find(kStandard)) << "it is to be asked for already";
}

TEST_F(ResponseTracking, ThreeMustOvertakeItTowardsAUrocePeerWhosePathsMayDiffer) {
  read(10);
  arrive(1, 2);
  EXPECT_FALSE(find(kUroce));
  arrive(2, 3);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(lost(), Offsets{0});
}

TEST_F(ResponseTracking, WithoutReorderingTheLastOneIsMissingAsWell) {
  for (int i = 0; i < 4; ++i) read(1);
  tracker_.expect_until(kFirst + 4);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(lost(), (Offsets{0, 1}));
  EXPECT_TRUE(find(kUroce, 0, 1));
  EXPECT_EQ(lost(), (Offsets{0, 1, 2, 3}));
}

TEST_F(ResponseTracking, WhatIsAskedForIsNotMissingForARoundTrip) {
  read(10);
  read(10);
  tracker_.ask_until(kFirst + 10, now_);
  EXPECT_EQ(tracker_.expected_end(), kFirst + 10);
  EXPECT_FALSE(find(kUroce));
  tracker_.expect_until(kFirst + 20);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(ask(), Offsets{10}) << "that was not asked for";
  now_ += std::chrono::milliseconds(1);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(ask(), (Offsets{0, 10}));
}

TEST_F(ResponseTracking, EachMissingRunIsAskedForFromItsBeginning) {
  read(20);
  arrive(3, 5);
  arrive(10, 11);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(lost(), (Offsets{0, 5}));
}

// A duplicate READ may ask for less than the original (9.7.5.1.2), and Linux rxe then forgets what lies before.
TEST_F(ResponseTracking, AStandardPeerIsAskedForOneRunAtATime) {
  read(20);
  arrive(3, 5);
  arrive(10, 11);
  EXPECT_TRUE(find(kStandard));
  EXPECT_EQ(ask(), Offsets{0});
  EXPECT_FALSE(find(kStandard));
  EXPECT_TRUE(lost().empty());
  tracker_.forget(kFirst, 5);
  EXPECT_TRUE(find(kStandard, 5)) << "the first run is complete: now the second";
  EXPECT_EQ(ask(), Offsets{5});
}

TEST_F(ResponseTracking, WhatWasAskedForIsAskedForAgainAfterARoundTrip) {
  read(20);
  arrive(3, 5);
  ASSERT_TRUE(find(kUroce));
  ASSERT_EQ(ask(), Offsets{0});
  now_ += loss_.recency() - Nanos(1);
  EXPECT_FALSE(find(kUroce));
  now_ += Nanos(1);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(ask(), Offsets{0});
  EXPECT_FALSE(find(kUroce)) << "the wait starts afresh";
}

TEST_F(ResponseTracking, ANewHoleIsAskedForAtOnce) {
  read(20);
  arrive(3, 5);
  ASSERT_TRUE(find(kUroce));
  ASSERT_EQ(ask(), Offsets{0});
  arrive(8, 11);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(ask(), Offsets{5}) << "and 0 not yet again";
}

TEST_F(ResponseTracking, OnlyReadsAndAtomicsHaveResponses) {
  write(2);
  read(4);
  write(3);
  atomic();
  read(4);
  tracker_.expect_until(kFirst + 14);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(lost(), (Offsets{2, 9, 10}));
}

TEST_F(ResponseTracking, AnAtomicBehindACompleteReadIsFound) {
  read(4);
  atomic();
  read(2);
  arrive(0, 4);
  arrive(5, 6);
  EXPECT_TRUE(find(kStandard));
  EXPECT_EQ(lost(), Offsets{4});
}

TEST_F(ResponseTracking, ARunEndsWithItsRequest) {
  read(4);
  read(4);
  arrive(6, 8);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(lost(), (Offsets{0, 4})) << "one request each";
}

TEST_F(ResponseTracking, TheReachIsThatOfTheSets) {
  read(5'000);
  tracker_.expect_until(kFirst + 5'000);
  EXPECT_TRUE(find(kUroce));
  EXPECT_EQ(ask(), Offsets{0});
  // Everything within reach has come. The responses behind were out of reach, and were not requested.
  EXPECT_TRUE(find(kUroce, PsnSet::kSize));
  EXPECT_TRUE(loss_.is_lost(kFirst + PsnSet::kSize));
}

TEST_F(ResponseTracking, TheLastOneWithinReachCanBeMissing) {
  read(5'000);
  constexpr uint32_t kLast = PsnSet::kSize - 1;
  for (uint32_t i = 0; i < kLast; ++i) tracker_.add(kFirst + i);
  tracker_.expect_until(kFirst + 5'000);
  EXPECT_EQ(tracker_.arrived_from(kFirst, PsnSet::kSize), kLast);
  EXPECT_FALSE(find(kUroce)) << "the reach ends one behind it";
  EXPECT_TRUE(find(kStandard));
  EXPECT_EQ(lost(), Offsets{kLast});
}

}  // namespace
}  // namespace uroce::transport
