// Memory that was made shareable, as children of fork() see it.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shared_view.h"
#include "sharing/sharing.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096;

auto share(void* address, std::size_t length) { return Sharing::of_this_process().share(address, length, true); }

uint8_t* map(std::size_t length, int flags = 0) {
  void* at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

/// Runs it in a child of fork(), which ends well if it gives 0.
pid_t start_child(const std::function<int()>& function) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function());
  return child;
}

void expect_ends_well(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool all_are(const volatile uint8_t* at, std::size_t length, uint8_t value) {
  for (std::size_t i = 0; i < length; ++i) {
    if (at[i] != value) return false;
  }
  return true;
}

/// Parent and child see the bytes as they were, and neither sees the other's later stores.
void expect_apart(uint8_t* at, std::size_t length) {
  std::memset(at, 1, length);
  const auto segments = share(at, length);
  ASSERT_TRUE(segments) << segments.error().text;
  const SharedView view(*segments, at);
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  char byte = 0;
  const pid_t child = start_child([&] {
    if (::read(to_child[0], &byte, 1) != 1) return 1;  // the parent has stored
    if (!all_are(at, length, 1)) return 2;
    std::memset(at, 3, length);
    if (::write(to_parent[1], "", 1) != 1 || ::read(to_child[0], &byte, 1) != 1) return 3;
    return all_are(at, length, 3) ? 0 : 4;
  });
  ASSERT_GT(child, 0);
  EXPECT_TRUE(all_are(at, length, 1));
  std::memset(at, 2, length);
  ASSERT_EQ(::write(to_child[1], "", 1), 1);
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  EXPECT_TRUE(all_are(at, length, 2));
  for (std::size_t i = 0; i < length; ++i) view[i] = 4;  // a peer, by way of the daemon
  EXPECT_TRUE(all_are(at, length, 4));
  ASSERT_EQ(::write(to_child[1], "", 1), 1);
  expect_ends_well(child);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
}

uint8_t initialised[7 * kPage + 100] = {1};

TEST(SharingAndFork, Mmap) { expect_apart(map(50 * kPage), 50 * kPage); }
TEST(SharingAndFork, LargeRange) {
  constexpr std::size_t kLength = 10'001 * kPage;
  uint8_t* at = map(kLength);
  expect_apart(at, kLength);
  ::munmap(at, kLength);  // each child of the tests that follow would get a copy
}
TEST(SharingAndFork, PartsOfPages) { expect_apart(map(5 * kPage) + 10, 3 * kPage + 11); }
TEST(SharingAndFork, Data) { expect_apart(initialised + 7, sizeof(initialised) - 7); }

TEST(SharingAndFork, Heap) {
  for (const std::size_t length : {16, 3000, 20000}) {
    auto* at = static_cast<uint8_t*>(std::malloc(length));
    expect_apart(at, length);
    std::free(at);
  }
}

TEST(SharingAndFork, Stack) {
  uint8_t on_stack[3 * kPage];
  expect_apart(on_stack, sizeof(on_stack));
}

TEST(SharingAndFork, HugePages) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  uint8_t* at = map(kHuge, MAP_HUGETLB | 21 << MAP_HUGE_SHIFT);
  uint8_t* more = map(kHuge, MAP_HUGETLB | 21 << MAP_HUGE_SHIFT);
  if (more != nullptr) ::munmap(more, kHuge);
  if (at == nullptr || more == nullptr) GTEST_SKIP() << "fewer than two huge pages of 2 MiB are free";
  expect_apart(at, kHuge);
  ::munmap(at, kHuge);
  ASSERT_TRUE(share(initialised, 1));  // frees the huge page
}

/// The mapping that an address lies in.
std::pair<uint8_t*, std::size_t> mapping_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, end = 0;
    std::sscanf(line.c_str(), "%lx-%lx", &first, &end);
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (first <= at && at < end) return {reinterpret_cast<uint8_t*>(first), end - first};
  }
  return {};
}

void use_the_heap(unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::string> strings(100);
  for (int i = 0; i < 3000; ++i) {
    std::string& one = strings[random() % strings.size()];
    if (!one.empty() && one.front() != one.back()) std::abort();
    one.assign(1 + random() % 2000, static_cast<char>('a' + random() % 26));
  }
}

void fork_with_the_heap_shared() {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's allocator leaves a child the locks of the parent's other threads";
#endif
  const auto small = std::make_unique<int>(1);
  const auto [heap, length] = mapping_of(small.get());
  ASSERT_NE(heap, nullptr);
  const auto segments = share(heap, length);
  ASSERT_TRUE(segments) << segments.error().text;
  std::jthread other([](const std::stop_token& stop) {
    for (unsigned seed = 0; !stop.stop_requested(); ++seed) use_the_heap(seed);
  });
  for (unsigned i = 0; i < 10; ++i) {
    const auto number = std::make_unique<unsigned>(i);
    const pid_t child = start_child([&] {
      use_the_heap(i);
      std::thread([&] { use_the_heap(i + 1); }).join();
      return *number == i && *small == 1 ? 0 : 1;
    });
    *number = 1000;
    use_the_heap(i + 2);
    expect_ends_well(child);
  }
}

TEST(SharingAndFork, WholeHeapShared) { fork_with_the_heap_shared(); }

TEST(SharingAndFork, WholeHeapOfAThreadShared) { std::thread(fork_with_the_heap_shared).join(); }

/// The stacks of new threads have `bytes` while this exists.
class SmallStacks {
 public:
  explicit SmallStacks(std::size_t bytes) {
    pthread_attr_t small;
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    EXPECT_EQ(::pthread_getattr_default_np(&small), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&small, bytes), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&small), 0);
    ::pthread_attr_destroy(&small);
  }
  SmallStacks(const SmallStacks&) = delete;
  SmallStacks& operator=(const SmallStacks&) = delete;
  ~SmallStacks() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(SharingAndFork, WholeStackAndThreadBlockShared) {
  // The C library keeps the stack for later threads, and each child gets a copy of it.
  const SmallStacks small(64 * kPage);
  std::thread([] {
    wait_until_main_sleeps();
    uint8_t here = 5;
    const auto [stack, length] = mapping_of(&here);
    const auto segments = share(stack, length);
    ASSERT_TRUE(segments) << segments.error().text;
    for (int i = 0; i < 20; ++i) {
      volatile int local = i;
      const pid_t child = start_child([&] {
        local = local + 1000;
        use_the_heap(1);
        return here == 5 && local == i + 1000 ? 0 : 1;
      });
      use_the_heap(2);
      EXPECT_EQ(local, i);
      expect_ends_well(child);
      EXPECT_EQ(local, i);
    }
  }).join();
}

TEST(SharingAndFork, NoStoreIsLostInTheParent) {
  constexpr std::size_t kLength = 3 * kPage;
  uint8_t* at = map(kLength + 2 * kPage) + 100;  // the first and the last page are not whole
  const auto segments = share(at, kLength);
  ASSERT_TRUE(segments) << segments.error().text;
  const SharedView view(*segments, at);
  // The application has the even bytes, a peer the odd ones.
  const auto store = [&](std::size_t odd, const std::function<volatile uint8_t&(std::size_t)>& byte,
                         const std::stop_token& stop, std::vector<uint8_t>& expected) {
    std::minstd_rand random(static_cast<unsigned>(odd + 1));
    while (!stop.stop_requested()) {
      const std::size_t i = random() % (kLength / 2) * 2 + odd;
      byte(i) = ++expected[i];
    }
  };
  std::vector<uint8_t> expected(kLength);
  std::jthread own([&](const std::stop_token& stop) {
    store(0, [&](std::size_t i) -> volatile uint8_t& { return at[i]; }, stop, expected);
  });
  std::jthread peer([&](const std::stop_token& stop) {
    store(1, [&](std::size_t i) -> volatile uint8_t& { return view[i]; }, stop, expected);
  });
  for (int i = 0; i < 30; ++i) expect_ends_well(start_child([] { return 0; }));
  own.request_stop();
  peer.request_stop();
  own.join();
  peer.join();
  for (std::size_t i = 0; i < kLength; ++i) {
    ASSERT_EQ(at[i], expected[i]) << "byte " << i;
    ASSERT_EQ(view[i], expected[i]) << "byte " << i;
  }
}

TEST(SharingAndFork, ChildrenShareMemoryOfTheirOwn) {
  uint8_t* at = map(6 * kPage);
  ASSERT_TRUE(share(at, 6 * kPage));
  std::memset(at, 9, 6 * kPage);
  expect_ends_well(start_child([&] {
    const auto segments = share(at, 6 * kPage);
    if (!segments) return 1;
    const SharedView view(*segments, at);
    view[kPage] = 10;
    if (at[kPage] != 10 || at[0] != 9) return 2;
    const pid_t grandchild = start_child([&] {
      at[kPage] = static_cast<uint8_t>(at[kPage] + 1);
      return at[kPage] == 11 ? 0 : 1;
    });
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    return status == 0 && view[kPage] == 10 ? 0 : 3;
  }));
  EXPECT_EQ(at[kPage], 9);
}

TEST(SharingAndFork, SpawnedProgramsAreOfNoConcern) {
  uint8_t* at = map(6 * kPage);
  ASSERT_TRUE(share(at, 6 * kPage));
  EXPECT_EQ(std::system("exit 7"), 7 << 8);
}

bool is_mapped(void* page) {
  unsigned char resident = 0;
  return ::mincore(page, kPage, &resident) == 0;
}

// In a child, because leave_out_of_children() cannot be undone.
TEST(SharingAndFork, LeftOutOfChildren) {
  uint8_t* early = map(4 * kPage);
  uint8_t* late = map(6 * kPage);
  uint8_t* done = map(4 * kPage);
  for (uint8_t* at : {early, late, done}) std::memset(at, 6, 4 * kPage);
  expect_ends_well(start_child([&] {
    Sharing& sharing = Sharing::of_this_process();
    if (!sharing.share(early, 4 * kPage, true)) return 1;
    sharing.leave_out_of_children();
    const auto segments = sharing.share(late + 100, 3 * kPage, true);  // two whole pages between two others
    if (!segments || !sharing.share(done, 4 * kPage, true) || !sharing.share(done, 2 * kPage, true)) return 2;
    sharing.done_with(done, 4 * kPage);
    const SharedView view(*segments, late + 100);
    const pid_t grandchild = start_child([&] {
      if (is_mapped(early) || is_mapped(late + kPage) || is_mapped(late + 2 * kPage) || is_mapped(done)) return 1;
      if (!is_mapped(late) || !is_mapped(late + 3 * kPage) || !is_mapped(done + 2 * kPage)) return 2;
      if (late[100] != 6 || late[4 * kPage - 1] != 6 || done[3 * kPage] != 6) return 3;
      late[100] = 7;
      use_the_heap(1);
      return 0;
    });
    int status = 1;
    ::waitpid(grandchild, &status, 0);
    if (status != 0) return 10 + WEXITSTATUS(status);
    view[0] = 8;
    return late[100] == 8 ? 0 : 4;
  }));
}

// Whole pages that happen to lie beside a thread's control block hold nothing of the C library.
TEST(SharingAndFork, LeftOutOfChildrenBesideAThreadBlock) {
  constexpr std::size_t kStack = 64 * kPage, kBeside = 4 * kPage;
  uint8_t* const stack = map(kStack + kBeside);  // the block is at the stack's upper end
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  ASSERT_EQ(::pthread_attr_setstack(&attributes, stack, kStack), 0);
  expect_ends_well(start_child([&] {
    pthread_t thread;
    const auto run = [](void* beside) -> void* {
      auto* volatile below = static_cast<uint8_t*>(__builtin_alloca(16 * kPage));  // the frames of fork() lie elsewhere
      below[0] = 0;
      Sharing& sharing = Sharing::of_this_process();
      sharing.leave_out_of_children();
      if (!sharing.share(beside, kBeside, true)) return beside;
      const pid_t child = start_child([&] { return is_mapped(beside) ? 1 : 0; });
      int status = 1;
      ::waitpid(child, &status, 0);
      return status == 0 ? nullptr : beside;
    };
    void* result = nullptr;
    if (::pthread_create(&thread, &attributes, run, stack + kStack) != 0) return 1;
    ::pthread_join(thread, &result);
    return result == nullptr ? 0 : 2;
  }));
  ::pthread_attr_destroy(&attributes);
  ::munmap(stack, kStack + kBeside);
}

/// Runs all tests once more as nobody, in a process that first calls `before`.
void run_all_as_nobody(bool (*before)()) {
  if (::geteuid() != 0) GTEST_SKIP() << "has no privilege already";
  const int self = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(self, 0);
  expect_ends_well(start_child([&] {
    constexpr unsigned kNobody = 65534;
    char name[] = "unit-sharing", filter[] = "--gtest_filter=Sharing*", quiet[] = "--gtest_brief=1";
    char* arguments[] = {name, filter, quiet, nullptr};
    char* environment[] = {nullptr};
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0) return 101;
    if (!before()) return 103;
    ::fexecve(self, arguments, environment);
    return 102;
  }));
  ::close(self);
}

// Another kind of userfaultfd, and no way to files by their mapping.
TEST(SharingUnprivileged, EveryTest) {
  run_all_as_nobody([] { return true; });
}

// As in containers: other threads are stopped instead.
TEST(SharingUnguarded, EveryTest) {
  run_all_as_nobody([] {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(code), code};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  });
}

}  // namespace
}  // namespace uroce::sharing
