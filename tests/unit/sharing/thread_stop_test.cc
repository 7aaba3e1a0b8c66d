#include "sharing/thread_stop.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sharing/page_joiners.h"

namespace uroce::sharing {
namespace {

class SharingThreadStop : public testing::Test {
 protected:
  uintptr_t stack() const { return reinterpret_cast<uintptr_t>(memory_.get()); }

 private:
  std::unique_ptr<std::array<std::byte, ThreadStop::kStackBytes>> memory_ =
      std::make_unique<std::array<std::byte, ThreadStop::kStackBytes>>();
};

struct Counter {
  std::atomic<uint64_t> value{0};
  std::jthread thread{[this](const std::stop_token& stop) {
    while (!stop.stop_requested()) ++value;
  }};
  void wait_until_running() const {
    for (const uint64_t from = value; value < from + 1000;) std::this_thread::yield();
  }
};

TEST_F(SharingThreadStop, StopsEveryThreadAndLetsItRunOn) {
  std::vector<std::unique_ptr<Counter>> counters;
  for (int i = 0; i < 5; ++i) counters.push_back(std::make_unique<Counter>());
  for (int round = 0; round < 20; ++round) {
    for (const auto& counter : counters) counter->wait_until_running();
    const ThreadStop stop(stack(), {::gettid()});
    std::array<uint64_t, 5> before{};
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = counters[i]->value;
    for (int i = 0; i < 100; ++i) ::sched_yield();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(counters[i]->value, before[i]);
  }
  for (const auto& counter : counters) counter->wait_until_running();
}

TEST_F(SharingThreadStop, AnExceptedThreadRuns) {
  std::atomic<pid_t> id{0};
  std::atomic<uint64_t> count{0};
  std::jthread other([&](const std::stop_token& stop) {
    id = ::gettid();
    while (!stop.stop_requested()) ++count;
  });
  while (id == 0) std::this_thread::yield();
  const ThreadStop stop(stack(), {::gettid(), id});
  for (const uint64_t from = count; count < from + 1000;) ::sched_yield();
}

TEST_F(SharingThreadStop, AThreadGoesOnToWaitInASystemCall) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<bool> reading{false};
  char byte = 0;
  ssize_t got = -1;
  std::jthread reader([&] {
    reading = true;
    got = ::read(ends[0], &byte, 1);
  });
  while (!reading) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) const ThreadStop stop(stack(), {::gettid()});
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(byte, 'x');
  for (const int fd : ends) ::close(fd);
}

TEST(SharingThreads, LieInTheirPages) {
  const int tasks = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(tasks, 0);
  void* const elsewhere = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto away = reinterpret_cast<uintptr_t>(elsewhere);
  std::atomic<uintptr_t> block{0};
  std::atomic<bool> end{false};
  std::thread other([&] {
    block = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
    block.notify_one();
    end.wait(false);
  });
  block.wait(0);
  const uintptr_t page = block.load() / 4096 * 4096;
  EXPECT_EQ(thread_reaches(tasks, page, page + 4096), true);
  EXPECT_EQ(thread_reaches(tasks, block.load() + 64, block.load() + 128), true) << "a part of the block";
  EXPECT_EQ(thread_reaches(tasks, away, away + 4096), false);
  EXPECT_TRUE(thread_block_reaches(page, page + 4096));
  EXPECT_FALSE(thread_block_reaches(away, away + 4096));
  end = true;
  end.notify_one();
  other.join();
  EXPECT_EQ(thread_reaches(-1, page, page + 4096), std::nullopt) << "the threads are not known";
  ::munmap(elsewhere, 4096);
  ::close(tasks);
}

TEST_F(SharingThreadStop, ThreadsThatStartAndEndMeanwhile) {
  std::jthread starter([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::thread([] {}).join();
  });
  for (int i = 0; i < 200; ++i) const ThreadStop stop(stack(), {::gettid()});
}

}  // namespace
}  // namespace uroce::sharing
