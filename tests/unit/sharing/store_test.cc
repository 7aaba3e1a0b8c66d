// Threads that store while pages move: no store is lost, and no thread crashes.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include "shared_view.h"
#include "sharing/sharing.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096;

auto share(void* address, std::size_t length) { return Sharing::of_this_process().share(address, length, true); }

/// Stores into every eighth word, a different one per thread, and knows the expected values.
class Storer {
 public:
  Storer(uint64_t* words, std::size_t count, std::size_t index)
      : words_(words),
        index_(index),
        expected_(count / kStorers),
        thread_([this](std::stop_token stop) { run(stop); }) {}

  void stop_and_check(const SharedView& view) {
    thread_.request_stop();
    thread_.join();
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const std::size_t word = i * kStorers + index_;
      uint64_t seen = 0;
      for (std::size_t byte = 0; byte < 8; ++byte) seen |= uint64_t{view[word * 8 + byte]} << (8 * byte);
      ASSERT_EQ(words_[word], expected_[i]) << "word " << word;
      ASSERT_EQ(seen, expected_[i]) << "word " << word;
    }
  }
  void wait_until_running() const {
    for (const uint64_t from = stores_; stores_ < from + 1000;) std::this_thread::yield();
  }

  static constexpr std::size_t kStorers = 2;

 private:
  void run(const std::stop_token& stop) {
    std::minstd_rand random(static_cast<unsigned>(index_ + 1));
    while (!stop.stop_requested()) {
      const std::size_t i = random() % expected_.size();
      auto& word = reinterpret_cast<std::atomic<uint64_t>&>(words_[i * kStorers + index_]);
      // Read and written, so that a page that went back in time shows too.
      word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      ++expected_[i];
      stores_.store(stores_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }

  uint64_t* words_;
  std::size_t index_;
  std::vector<uint64_t> expected_;
  std::atomic<uint64_t> stores_{0};
  std::jthread thread_;
};

/// Shares the range, which has zeros, in two halves that overlap, with the storers at work.
void share_zeros_under_stores(void* memory, std::size_t length) {
  auto* words = static_cast<uint64_t*>(memory);
  auto* bytes = static_cast<uint8_t*>(memory);
  Storer first(words, length / 8, 0), second(words, length / 8, 1);
  first.wait_until_running();
  second.wait_until_running();
  ASSERT_TRUE(share(bytes, length / 2 + kPage));
  const auto segments = share(bytes, length);
  ASSERT_TRUE(segments) << segments.error().text;
  first.wait_until_running();
  const SharedView view(*segments, memory);
  first.stop_and_check(view);
  second.stop_and_check(view);
}

void share_under_stores(void* memory, std::size_t length) {
  std::memset(memory, 0, length);
  share_zeros_under_stores(memory, length);
}

void share_mapping_under_stores(std::size_t length, int flags, int fd, int rounds) {
  for (int round = 0; round < rounds && !testing::Test::HasFatalFailure(); ++round) {
    void* at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED && (flags & MAP_HUGETLB) != 0) GTEST_SKIP() << "no huge page is free";
    ASSERT_NE(at, MAP_FAILED);
    share_under_stores(at, length);
    ::munmap(at, length);
  }
}

alignas(kPage) uint8_t initialised[300 * kPage] = {1};

TEST(SharingUnderStores, Mmap) { share_mapping_under_stores(64 * kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1, 12); }

TEST(SharingUnderStores, LargeRange) { share_mapping_under_stores(2000 * kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1, 3); }

TEST(SharingUnderStores, RangeOfHugePages) {
  share_mapping_under_stores(12'001 * kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1);
}

TEST(SharingUnderStores, PagesThatAreMissing) {
  for (const std::size_t length : {std::size_t{2000} * kPage, std::size_t{12'001} * kPage}) {
    void* at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    share_zeros_under_stores(at, length);
    ::munmap(at, length);
  }
}

TEST(SharingUnderStores, InitialisedData) { share_under_stores(initialised, sizeof(initialised)); }

TEST(SharingUnderStores, FilesMappedPrivate) {
  for (const std::string folder : {"/dev/shm", "/tmp"}) {
    std::string path = folder + "/uroce-store-XXXXXX";
    const int fd = ::mkostemp(path.data(), O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ::unlink(path.c_str());
    ASSERT_EQ(::ftruncate(fd, 300 * kPage), 0);
    share_mapping_under_stores(300 * kPage, MAP_PRIVATE, fd, 4);
    ::close(fd);
  }
}

TEST(SharingUnderStores, HugePages) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;
  share_mapping_under_stores(std::size_t{2} << 20, kFlags, -1, 1);
  ASSERT_TRUE(share(initialised, 1));  // frees the huge page
}

TEST(SharingUnderStores, PagesThatAreDroppedMeanwhile) {
  for (int round = 0; round < 30; ++round) {
    constexpr std::size_t kLength = 64 * kPage;
    auto* at =
        static_cast<uint8_t*>(::mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::atomic<uint64_t> drops{0};
    std::jthread dropper([&](const std::stop_token& stop) {
      for (std::size_t i = 0; !stop.stop_requested(); i = (i + 7) % 64) {
        ::madvise(at + i * kPage, kPage, MADV_DONTNEED);
        volatile uint8_t& byte = at[i * kPage];
        const auto value = static_cast<uint8_t>(drops + 1);
        byte = value;
        if (byte != value) std::abort();
        ++drops;
      }
    });
    while (drops < 100) std::this_thread::yield();
    const auto segments = share(at, kLength);
    ASSERT_TRUE(segments) << segments.error().text;
    dropper.request_stop();
    dropper.join();
    const SharedView view(*segments, at);
    for (std::size_t i = 0; i < kLength; ++i) ASSERT_EQ(view[i], at[i]);
    ::munmap(at, kLength);
  }
}

TEST(SharingUnderStores, HeapThatOthersAllocateFrom) {
  std::atomic<uint64_t> allocations{0};
  const auto churn = [&](const std::stop_token& stop, unsigned seed) {
    std::minstd_rand random(seed);
    std::vector<std::pair<uint8_t*, std::size_t>> held(200);
    while (!stop.stop_requested()) {
      auto& [at, length] = held[random() % held.size()];
      for (std::size_t i = 0; i < length; ++i) {
        if (at[i] != static_cast<uint8_t>(length)) std::abort();
      }
      std::free(at);
      length = 1 + random() % 3000;
      at = static_cast<uint8_t*>(std::malloc(length));
      std::memset(at, static_cast<int>(length & 0xff), length);
      ++allocations;
    }
    for (auto& [at, length] : held) std::free(at);
  };
  std::jthread one([&](const std::stop_token& stop) { churn(stop, 1); });
  std::jthread two([&](const std::stop_token& stop) { churn(stop, 2); });
  std::minstd_rand random(3);
  for (int round = 0; round < 60; ++round) {
    const uint64_t from = allocations;
    while (allocations < from + 100) std::this_thread::yield();
    const std::size_t length = 1 + random() % 9000;
    std::unique_ptr<uint8_t, decltype(&std::free)> mine(static_cast<uint8_t*>(std::malloc(length)), &std::free);
    std::memset(mine.get(), round, length);
    const auto segments = share(mine.get(), length);
    ASSERT_TRUE(segments) << segments.error().text;
    const SharedView view(*segments, mine.get());
    for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(view[i], static_cast<uint8_t>(round));
  }
}

TEST(SharingUnderStores, StackOfARunningThread) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<uint64_t*> words{nullptr};
    std::atomic<uint64_t> stores{0};
    std::jthread other([&](const std::stop_token& stop) {
      uint64_t on_stack[1024] = {};
      words = on_stack;
      uint64_t count = 0;
      while (!stop.stop_requested()) {
        auto& word = reinterpret_cast<std::atomic<uint64_t>&>(on_stack[count % 1024]);
        word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        stores.store(++count, std::memory_order_relaxed);
      }
      for (uint64_t i = 0; i < 1024; ++i) {
        if (on_stack[i] != count / 1024 + (i < count % 1024)) std::abort();
      }
      words = nullptr;
    });
    while (stores < 5000) std::this_thread::yield();
    if (::geteuid() == 0) {  // without privilege the kernel's stores into the thread's block next to it would fail
      const auto segments = share(words, 1024 * sizeof(uint64_t));
      ASSERT_TRUE(segments) << segments.error().text;
    }
    for (const uint64_t from = stores; stores < from + 1000;) std::this_thread::yield();
  }
}

TEST(SharingUnderStores, ThreadsAreJoinedWhoseBlockIsShared) {
  for (int round = 0; round < 30; ++round) {
    std::atomic<bool> joining{false};
    std::thread thread([&] {
      while (!joining) std::this_thread::yield();
      wait_until_main_sleeps();
      auto* block = static_cast<uint8_t*>(__builtin_thread_pointer());
      const auto segments = share(block, 64);
      ASSERT_TRUE(segments) << segments.error().text;
    });
    joining = true;
    thread.join();
  }
}

// At each switch the kernel stores into the control block of the thread that runs next (rseq(2)).
TEST(SharingUnderStores, BlocksOfThreadsThatAreSwitched) {
  constexpr std::size_t kStack = 16 * kPage, kThreads = 8;
  for (int round = 0; round < 30; ++round) {
    auto* stacks = static_cast<uint8_t*>(
        ::mmap(nullptr, kThreads * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(stacks, MAP_FAILED);
    std::atomic<uint64_t> state{0};  // counts; the highest bit ends the threads
    constexpr uint64_t kStop = uint64_t{1} << 63;
    const auto yield = [](void* argument) -> void* {
      auto& count = *static_cast<std::atomic<uint64_t>*>(argument);
      while ((count.fetch_add(1) & kStop) == 0) ::sched_yield();
      return nullptr;
    };
    std::array<pthread_t, kThreads> threads{};
    for (std::size_t i = 0; i < kThreads; ++i) {
      pthread_attr_t attributes;
      ASSERT_EQ(::pthread_attr_init(&attributes), 0);
      ASSERT_EQ(::pthread_attr_setstack(&attributes, stacks + i * kStack, kStack), 0);
      ASSERT_EQ(::pthread_create(&threads[i], &attributes, yield, &state), 0);
      ::pthread_attr_destroy(&attributes);
    }
    while (state < 500) std::this_thread::yield();
    const auto segments = share(stacks, kThreads * kStack);
    ASSERT_TRUE(segments) << segments.error().text;
    for (const uint64_t from = state; state < from + 500;) std::this_thread::yield();
    state |= kStop;
    for (const pthread_t thread : threads) ASSERT_EQ(::pthread_join(thread, nullptr), 0);
    ::munmap(stacks, kThreads * kStack);
  }
}

TEST(SharingUnderStores, TheKernelsStoresWaitToo) {
  constexpr std::size_t kLength = 64 * kPage;
  const int zero = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  std::atomic<int> failures{0};
  for (int round = 0; round < 30; ++round) {
    auto* at =
        static_cast<uint8_t*>(::mmap(nullptr, kLength, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(at, 1, kLength);
    std::atomic<uint64_t> reads{0};
    std::jthread reader([&](const std::stop_token& stop) {
      for (; !stop.stop_requested(); ++reads) {
        const auto offset = reads % 63 * kPage + 17;
        if (::read(zero, at + offset, kPage) != static_cast<ssize_t>(kPage)) ++failures;
      }
    });
    while (reads < 100) std::this_thread::yield();
    ASSERT_TRUE(share(at, kLength));
    for (const uint64_t from = reads; reads < from + 100;) std::this_thread::yield();
    reader.request_stop();
    reader.join();
    ::munmap(at, kLength);
  }
  ::close(zero);
  RecordProperty("failures", failures);
  std::printf("%d reads failed\n", failures.load());
  if (::geteuid() == 0) {
    EXPECT_EQ(failures, 0);
  }
}

}  // namespace
}  // namespace uroce::sharing
