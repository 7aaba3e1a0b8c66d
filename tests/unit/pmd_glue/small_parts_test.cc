// Parts that need no EAL.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "pmd_glue/fault_guard.h"
#include "pmd_glue/frame_ring.h"
#include "pmd_glue/link_note.h"
#include "pmd_glue/waker.h"

namespace uroce::glue {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FrameRing, KeepsFramesInOrderAndRefusesMore) {
  FrameRing ring(4, 8);
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.front().empty());
  const std::array<std::byte, 9> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  for (std::size_t n = 1; n <= 4; ++n) EXPECT_TRUE(ring.push(std::span(bytes).first(n)));
  EXPECT_FALSE(ring.push(std::span(bytes).first(1))) << "full";
  for (std::size_t n = 1; n <= 4; ++n) {
    EXPECT_EQ(ring.front().size(), n);
    EXPECT_EQ(ring.front()[0], std::byte{1});
    ring.pop();
  }
  EXPECT_FALSE(ring.push(bytes)) << "longer than a slot";
  EXPECT_TRUE(ring.push(std::span(bytes).first(8)));
}

TEST(LinkNote, TellsOnceASecondAndTheLastState) {
  LinkNote note;
  const auto at = [](int ms) { return Nanos(milliseconds(1000 + ms)); };
  EXPECT_FALSE(note.look("uroce0", true, at(0))) << "the first state";
  EXPECT_EQ(note.look("uroce0", false, at(1)), "uroce0: the link is down; nothing is sent or received until it is up");
  EXPECT_FALSE(note.look("uroce0", false, at(2)));
  EXPECT_EQ(note.next_deadline(), kNever);
  EXPECT_FALSE(note.look("uroce0", true, at(3))) << "within a second";
  EXPECT_EQ(note.next_deadline(), at(1001));
  EXPECT_FALSE(note.look("uroce0", false, at(4)));
  EXPECT_FALSE(note.look("uroce0", true, at(5)));
  EXPECT_EQ(note.look("uroce0", true, at(1001)), "uroce0: the link is up (it changed 3 times)");
  EXPECT_FALSE(note.look("uroce0", false, at(1500)));
  EXPECT_FALSE(note.look("uroce0", true, at(1600)));
  EXPECT_EQ(note.look("uroce0", true, at(2001)), "uroce0: the link is up (it changed 2 times)");
  EXPECT_EQ(note.look("uroce0", false, at(3001)),
            "uroce0: the link is down; nothing is sent or received until it is up");
}

TEST(Waker, WakesASleeper) {
  Waker waker;
  std::thread other([&] { waker.wake_always(); });
  const auto start = std::chrono::steady_clock::now();
  waker.prepare();
  waker.sleep(seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  other.join();
}

TEST(Waker, RemembersAWakeThatCameBeforeTheSleep) {
  Waker waker;
  waker.wake();  // nobody sleeps: costs nothing and is not remembered
  waker.prepare();
  waker.wake();
  const auto start = std::chrono::steady_clock::now();
  waker.sleep(seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  waker.prepare();
  waker.sleep(milliseconds(1));  // and only once
}

TEST(Waker, RousesASleeperBeforeAndDuringItsSleep) {
  Waker waker;
  waker.rouse();
  waker.prepare();
  EXPECT_TRUE(waker.roused());
  EXPECT_FALSE(waker.roused());
  waker.rouse();
  const auto start = std::chrono::steady_clock::now();
  waker.sleep(seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  EXPECT_FALSE(waker.roused()) << "the sleep has ended by it";
}

// In each order of the two threads' steps one of them sees the other's.
TEST(Waker, LosesNoRouse) {
  constexpr int kTurns = 20000;
  Waker waker;
  std::atomic<int> wanted{0}, done{0};
  std::thread sleeper([&] {
    while (done < kTurns) {
      if (const int seen = wanted; seen != done) {
        done = seen;
        continue;
      }
      waker.prepare();
      if (!waker.roused()) waker.sleep(seconds(30));
      waker.cancel();
    }
  });
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 1; turn <= kTurns; ++turn) {
    wanted = turn;
    waker.rouse();
    while (done < turn) std::this_thread::yield();
  }
  sleeper.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(25)) << "a sleep ran to its limit";
}

// A client of the daemon before has a descriptor of that one's pipe.
TEST(Waker, TakesThePipeOfAnother) {
  Waker heir;
  int clients = -1;
  {
    const Waker first;
    message::Belongings lent;
    first.lend(lent, 3);
    EXPECT_EQ(lent.list().size(), 2u);
    clients = first.new_descriptor().value_or(-1);
    heir.inherit(lent, 3);
    EXPECT_TRUE(lent.list().empty());
  }
  ASSERT_EQ(write(clients, "x", 1), 1);
  const auto slept = [&](Nanos limit) {
    const auto begin = std::chrono::steady_clock::now();
    heir.prepare();
    heir.sleep(limit);
    return std::chrono::steady_clock::now() - begin;
  };
  EXPECT_GE(slept(milliseconds(20)), milliseconds(20)) << "it is not its own yet";
  heir.awaken();
  EXPECT_LT(slept(seconds(60)), seconds(30)) << "awakened";
  EXPECT_GE(slept(milliseconds(20)), milliseconds(20));
  ASSERT_EQ(write(clients, "x", 1), 1);
  EXPECT_LT(slept(seconds(60)), seconds(30));
  heir.wake_always();
  EXPECT_LT(slept(seconds(60)), seconds(30));
  close(clients);
}

TEST(Waker, TakesNothingButAPipe) {
  const Waker first;
  Waker heir;
  message::Belongings wrong;
  const int other = eventfd(0, EFD_CLOEXEC);
  {
    message::Belongings names;
    first.lend(names, 0);
    for (const auto& [name, fd] : names.list()) wrong.lend(name, other);
  }
  heir.inherit(wrong, 0);
  heir.awaken();
  heir.wake_always();
  heir.prepare();
  heir.sleep(seconds(60));  // by its own pipe
  close(other);
}

TEST(Waker, WatchesDescriptors) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  Waker waker;
  ASSERT_TRUE(waker.watch(ends[0]));
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  const auto start = std::chrono::steady_clock::now();
  waker.prepare();
  waker.sleep(seconds(30));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  close(ends[0]);
  close(ends[1]);
}

// An eventfd, which is what vfio-pci gives for a queue's interrupt, stays readable until it is read.
TEST(Waker, TakesTheEventsOfAnEventfd) {
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ASSERT_GE(event, 0);
  Waker waker;
  ASSERT_TRUE(waker.watch(event));
  ASSERT_EQ(eventfd_write(event, 3), 0);
  waker.prepare();
  waker.sleep(seconds(30));
  eventfd_t left = 0;
  EXPECT_NE(eventfd_read(event, &left), 0) << left << " events are left";
  close(event);
}

TEST(FaultGuard, EndsABurstThatFaults) {
  install_fault_guard();
  void* page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* byte = static_cast<volatile char*>(page);
  for (int i = 0; i < 3; ++i) {
    volatile int reached = 0;
    EXPECT_FALSE(guarded([&] {
      reached = 1;
      reached = *byte;
      reached = 2;
    }));
    EXPECT_EQ(reached, 1);
    EXPECT_TRUE(guarded([&] { reached = 3; }));
    EXPECT_EQ(reached, 3);
  }
  munmap(page, 4096);
}

TEST(FaultGuardDeathTest, LeavesOtherFaultsAlone) {
  install_fault_guard();
  EXPECT_DEATH(*static_cast<volatile int*>(nullptr) = 1, "");
}

}  // namespace
}  // namespace uroce::glue
