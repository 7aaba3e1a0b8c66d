#include "transport/engine/doorbells.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/support/test_queues.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kEntries = 4;

TEST(Doorbells, AFullTableRefusesAnotherRing) {
  const auto memory = test::make_aligned(queues::doorbell_bytes(kEntries));
  const queues::DoorbellReader reader(memory.get(), kEntries);
  Doorbells doorbells;
  for (uint32_t id = 0; id < Doorbells::kMaxRings; ++id) ASSERT_TRUE(doorbells.attach(reader, id));
  EXPECT_FALSE(doorbells.attach(reader, Doorbells::kMaxRings));
  doorbells.detach(7);
  EXPECT_TRUE(doorbells.attach(reader, Doorbells::kMaxRings));
}

TEST(Doorbells, FurtherRingsOfAPosterComeAndGoWithTheFirst) {
  const auto first = test::make_aligned(queues::doorbell_bytes(kEntries));
  const auto second = test::make_aligned(queues::doorbell_bytes(2 * kEntries));
  Doorbells doorbells;
  ASSERT_TRUE(doorbells.attach({first.get(), kEntries}, 7, 3, 4));
  doorbells.add({second.get(), 2 * kEntries}, 7);
  queues::DoorbellFlag flags[3]{};
  queues::DoorbellPoster(first.get(), kEntries).ring(flags[0], 10);
  queues::DoorbellPoster(second.get(), 2 * kEntries).ring(flags[1], 11);
  EXPECT_FALSE(doorbells.empty());
  uint32_t tokens = 0;
  EXPECT_TRUE(doorbells.poll(64, [&](uint32_t token, const Doorbells::Ring& ring) {
    EXPECT_EQ(ring.id, 7u);
    EXPECT_EQ(ring.client, 3u);
    tokens += token;
  }));
  EXPECT_EQ(tokens, 21u);
  // The poster counts once: as many others fit as before.
  for (uint32_t id = 100; id < 100 + Doorbells::kMaxRings - 1; ++id) {
    ASSERT_TRUE(doorbells.attach({first.get(), kEntries}, id));
  }
  EXPECT_FALSE(doorbells.attach({first.get(), kEntries}, 99));
  doorbells.detach(7);
  queues::DoorbellPoster(second.get(), 2 * kEntries).ring(flags[2], 12);
  EXPECT_TRUE(doorbells.empty()) << "the second ring went with the first";
  EXPECT_TRUE(doorbells.attach({first.get(), kEntries}, 99));
}

TEST(Doorbells, ALoneDoorbellIsTheOnlyOneOfTheOnlyRing) {
  const auto first = test::make_aligned(queues::doorbell_bytes(kEntries));
  const auto second = test::make_aligned(queues::doorbell_bytes(kEntries));
  Doorbells doorbells;
  EXPECT_EQ(doorbells.lone(), nullptr);
  ASSERT_TRUE(doorbells.attach({first.get(), kEntries}, 7));
  EXPECT_EQ(doorbells.lone(), nullptr);
  queues::DoorbellFlag flags[2]{};
  queues::DoorbellPoster poster(first.get(), kEntries);
  poster.ring(flags[0], 10);
  Doorbells::Ring* const ring = doorbells.lone();
  ASSERT_NE(ring, nullptr);
  EXPECT_EQ(ring->id, 7u);
  poster.ring(flags[1], 11);
  EXPECT_EQ(doorbells.lone(), nullptr) << "another one follows";
  EXPECT_EQ(ring->reader.take(), 10u);
  EXPECT_EQ(doorbells.lone(), ring);
  ASSERT_TRUE(doorbells.attach({second.get(), kEntries}, 8));
  EXPECT_EQ(doorbells.lone(), nullptr) << "another ring may have one";
}

// Rings with a memory of their own each.
class Polling : public ::testing::Test {
 protected:
  void add(uint16_t user, uint32_t rings) {
    for (uint32_t i = 0; i < rings; ++i) {
      std::byte* memory = memories_.emplace_back(test::make_aligned(queues::doorbell_bytes(kEntries))).get();
      posters_.emplace_back(memory, kEntries);
      ASSERT_TRUE(doorbells_.attach({memory, kEntries}, static_cast<uint32_t>(posters_.size()), user, user));
    }
  }
  // Rings once on each of the rings [from, to), which are counted from 0.
  void ring(uint32_t from, uint32_t to) {
    for (uint32_t at = from; at < to; ++at) {
      flags_.push_back(std::make_unique<queues::DoorbellFlag>());
      posters_[at].ring(*flags_.back(), at + 1);
    }
  }
  // The number of tokens that one poll gives by user.
  std::map<uint16_t, uint32_t> poll(uint32_t limit = 64) {
    std::map<uint16_t, uint32_t> taken;
    doorbells_.poll(limit, [&](uint32_t token, const Doorbells::Ring& ring) {
      EXPECT_EQ(token, ring.id);
      ++taken[ring.client];
    });
    return taken;
  }

  Doorbells doorbells_;
  std::vector<test::AlignedBytes> memories_;
  std::vector<queues::DoorbellPoster> posters_;
  std::vector<std::unique_ptr<queues::DoorbellFlag>> flags_;
};

TEST_F(Polling, AUserWithOneRingIsHeardInEveryPollBesideAThousand) {
  add(1, 1000);
  add(2, 1);
  ring(0, 1001);
  const auto taken = poll();
  EXPECT_EQ(taken.at(2), 1u);
  EXPECT_EQ(taken.at(1), 63u) << "the rest of the rings that a poll looks at";
  uint32_t heard = taken.at(1);
  for (uint32_t polls = 1; polls < 20; ++polls) heard += poll()[1];
  EXPECT_EQ(heard, 1000u) << "each in its turn";
}

TEST_F(Polling, AUserGetsItsLimitWhateverItRings) {
  add(1, 3);
  for (uint32_t i = 0; i < kEntries; ++i) ring(0, 3);
  EXPECT_EQ(poll(5).at(1), 5u);
  uint32_t rest = 0;
  for (uint32_t polls = 0; polls < 3; ++polls) rest += poll(5)[1];
  EXPECT_EQ(rest, 3 * kEntries - 5);
}

TEST_F(Polling, EachOfManyUsersIsHeard) {
  for (uint16_t user = 1; user <= 200; ++user) add(user, 2);
  ring(0, 400);
  EXPECT_EQ(poll().size(), 200u);
  EXPECT_EQ(poll().size(), 200u);
  EXPECT_TRUE(doorbells_.empty());
}

}  // namespace
}  // namespace uroce::transport
