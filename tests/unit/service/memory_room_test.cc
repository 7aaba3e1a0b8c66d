#include "service/memory_room.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "service/user.h"

namespace uroce::service {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// A group with a limit of 80 MiB: 10 are kept for the daemon, and 5 of these for root.
class Room : public testing::Test {
 protected:
  Room() { limit_to(80 * kMiB); }
  void limit_to(uint64_t bytes) {
    room_ = {.smallest = bytes, .left = bytes, .limit = bytes, .file = "/cg/memory.max"};
  }
  bool take(uint64_t bytes, bool privileged = false) { return memory_.take(bytes, privileged).has_value(); }

  cgroup::Room room_{};
  unsigned readings_ = 0;
  MemoryRoom::Clock::time_point now_{std::chrono::seconds(1)};
  MemoryRoom memory_{[this] {
                       ++readings_;
                       return room_;
                     },
                     1000 * kMiB, [this] { return now_; }};
};

TEST_F(Room, APartIsKeptForTheDaemonAndForRoot) {
  EXPECT_TRUE(take(70 * kMiB));
  room_.left = 0;
  now_ += MemoryRoom::kFresh;
  EXPECT_FALSE(take(1));
  room_.left = 11 * kMiB;
  EXPECT_TRUE(take(1 * kMiB)) << "something was given back";
  room_.left = 10 * kMiB;
  EXPECT_FALSE(take(1));
  EXPECT_TRUE(take(5 * kMiB, true));
  EXPECT_TRUE(take(0)) << "nothing is asked for";
  room_.left = 5 * kMiB;
  EXPECT_FALSE(take(1, true));
}

TEST_F(Room, TheRefusalNamesTheLimitAndTheWayOut) {
  room_.left = 12 * kMiB;
  const auto refused = memory_.take(4 * kMiB, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_EQ(refused.error().text,
            "the daemon has no memory for 4194304 bytes more: its control group allows 83886080 and has 12582912 left, "
            "of which 10485760 are for the daemon itself; release objects, or raise the limit (/cg/memory.max; "
            "MemoryMax of systemd)");
}

TEST_F(Room, IsReadOnceWhileThereIsEnough) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(take(1024));
  EXPECT_EQ(readings_, 1u);
  now_ += MemoryRoom::kFresh;
  EXPECT_TRUE(take(1024));
  EXPECT_EQ(readings_, 2u);
}

TEST_F(Room, WhatWasTakenSinceCounts) {
  room_.left = 30 * kMiB;
  unsigned taken = 0;
  while (taken < 100 && take(2 * kMiB)) {
    room_.left -= 2 * kMiB;  // as the kernel sees it later
    ++taken;
  }
  EXPECT_EQ(taken, 10u);
}

TEST_F(Room, WhatIsBeingFilledCountsBesideEveryReading) {
  auto filling = memory_.take(60 * kMiB, false);
  ASSERT_TRUE(filling);
  now_ += MemoryRoom::kFresh;
  EXPECT_FALSE(take(20 * kMiB));
  EXPECT_TRUE(take(10 * kMiB));
}

TEST_F(Room, ThreadsTogetherTakeNoMoreThanThereIs) {
  std::atomic<unsigned> taken{0};
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::vector<MemoryRoom::Hold> held;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        auto one = memory_.take(1 * kMiB, false);
        if (!one) continue;
        ++taken;
        const std::scoped_lock lock(mutex);
        held.push_back(std::move(*one));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken, 70u);
}

TEST_F(Room, AChangedLimitHoldsFromTheNextReadingOn) {
  EXPECT_EQ(memory_.memory(), 80 * kMiB);
  EXPECT_EQ(memory_.about(), "the control group allows 80 MiB of memory, of which 80 are left (/cg/memory.max)");
  limit_to(160 * kMiB);
  EXPECT_EQ(memory_.memory(), 80 * kMiB);
  now_ += MemoryRoom::kFresh;
  EXPECT_EQ(memory_.memory(), 160 * kMiB);
  EXPECT_TRUE(take(140 * kMiB));
  room_ = {};
  now_ += MemoryRoom::kFresh;
  EXPECT_EQ(memory_.memory(), 1000 * kMiB) << "the machine's";
  EXPECT_EQ(memory_.about(), "");
  EXPECT_TRUE(take(uint64_t{1} << 50)) << "nothing ends the daemon";
}

/// Users of a daemon in that group.
class RoomOfUsers : public Room {
 protected:
  Users users_ = [this] {
    Capacity capacity;
    for (const ResourceName& name : kResourceNames) {
      capacity.shared[name.resource] = capacity.whole[name.resource] = 1000 * kMiB;
    }
    capacity.set_memory(80 * kMiB);
    return Users(capacity, {}, {[](uint32_t, const std::string&) {}}, &memory_);
  }();
  const Peer alice_{.uid = 1001};
};

TEST_F(RoomOfUsers, OneUserHasAQuarterOfTheMemoryWhateverItsObjects) {
  const auto alice = users_.of(alice_);
  const auto queues = alice->charge(Resource::queue_bytes, 16 * kMiB, alice_);
  ASSERT_TRUE(queues) << queues.error().text;
  const auto pairs = alice->charge(Resource::qp, 4 * kMiB / 8192 - 1, alice_);
  ASSERT_TRUE(pairs) << pairs.error().text;
  const auto refused = alice->charge(Resource::qp, 2, alice_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_EQ(refused.error().text,
            "user 1001 has objects of 20963328 bytes and asks for 2 more queue pairs; the limit is 20971520 bytes, a "
            "quarter of the daemon's memory; release some, or raise the limit of its control group (MemoryMax of "
            "systemd)");
  users_.set_memory(160 * kMiB);
  EXPECT_TRUE(alice->charge(Resource::qp, 2, alice_));
}

TEST_F(RoomOfUsers, DevicesShowWhatTheMemoryAllows) {
  EXPECT_EQ(users_.of(alice_)->limit(Resource::qp, alice_), 20 * kMiB / 8192);
  users_.set_memory(1000 * kMiB);
  EXPECT_EQ(users_.of(alice_)->limit(Resource::qp, alice_), 250 * kMiB);
}

TEST_F(RoomOfUsers, TheOperatorMayGiveMoreQueues) {
  BudgetSettings settings;
  settings.limits[Resource::queue_bytes] = 60 * kMiB;
  users_.configure(settings);
  const auto alice = users_.of(alice_);
  const auto queues = alice->charge(Resource::queue_bytes, 60 * kMiB, alice_);
  ASSERT_TRUE(queues) << queues.error().text;
  EXPECT_TRUE(alice->charge(Resource::qp, 1, alice_));
  EXPECT_FALSE(alice->charge(Resource::qp, 20 * kMiB / 8192 + 1, alice_));
}

TEST_F(RoomOfUsers, WithoutALimitOfAGroupObjectsAloneCount) {
  room_ = {};
  users_.set_memory(1000 * kMiB);
  const auto alice = users_.of(alice_);
  EXPECT_TRUE(alice->charge(Resource::qp, 250 * kMiB, alice_)) << "a quarter of the queue pairs";
}

TEST_F(RoomOfUsers, ARefusedObjectCostsNothing) {
  const auto alice = users_.of(alice_);
  room_.left = 10 * kMiB;
  EXPECT_EQ(alice->charge(Resource::qp, 1, alice_).error().code, ENOMEM);
  EXPECT_EQ(alice->charge(Resource::connection, 1, alice_).error().code, ENOMEM);
  EXPECT_EQ(alice->take_memory(1, alice_).error().code, ENOMEM);
  EXPECT_EQ(alice->used(Resource::qp), 0u);
  EXPECT_EQ(alice->row().refusals, 3u);
  const Peer root{.uid = 0, .privileged = true};
  EXPECT_TRUE(users_.of(root)->charge(Resource::qp, 1, root)) << "root can always connect";
}

}  // namespace
}  // namespace uroce::service
