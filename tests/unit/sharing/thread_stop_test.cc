#include "sharing/thread_stop.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

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

TEST_F(SharingThreadStop, ThreadsThatStartAndEndMeanwhile) {
  std::jthread starter([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::thread([] {}).join();
  });
  for (int i = 0; i < 200; ++i) const ThreadStop stop(stack(), {::gettid()});
}

}  // namespace
}  // namespace uroce::sharing
