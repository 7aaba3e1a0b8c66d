// Descriptors that stay open: the userfaultfd, /proc/self/maps and the memfd of moved pages.
#include "sharing/page_guard.h"

#include <cstdint>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared_view.h"
#include "sharing/mappings.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096;

/// A new page that was moved, which a store and the daemon's view of it show.
bool moves_a_page() {
  void* const at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  auto* const byte = static_cast<volatile uint8_t*>(at);
  *byte = 1;
  const auto segments = Sharing::of_this_process().share(at, kPage, true);
  if (!segments) return false;
  const SharedView view(*segments, at);
  *byte = 2;
  return view[0] == 2;
}

/// Runs it in a child of fork().
bool holds_in_child(bool (*function)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(function() ? 0 : 1);
  int status = 1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PageGuard, IsOpenedOnce) {
  if (!PageGuard::of_this_process()) GTEST_SKIP() << "userfaultfd is not permitted";
  ASSERT_TRUE(moves_a_page());
  const unsigned before = PageGuard::opened();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(moves_a_page());
  EXPECT_EQ(PageGuard::opened(), before) << "before, each registration opened and closed one";
}

TEST(PageGuard, OfAChildIsItsOwn) {
  if (!PageGuard::of_this_process()) GTEST_SKIP() << "userfaultfd is not permitted";
  ASSERT_TRUE(moves_a_page());
  EXPECT_TRUE(holds_in_child([] {
    const unsigned before = PageGuard::opened();
    return moves_a_page() && moves_a_page() && PageGuard::opened() == before + 1;
  }));
  const unsigned before = PageGuard::opened();
  EXPECT_TRUE(moves_a_page());
  EXPECT_EQ(PageGuard::opened(), before) << "the parent's is still there";
}

TEST(PageGuard, IsOpenedAgainWhereTheProgramClosedIt) {
  if (!PageGuard::of_this_process()) GTEST_SKIP() << "userfaultfd is not permitted";
  ASSERT_TRUE(moves_a_page());
  EXPECT_TRUE(holds_in_child([] {
    // The number is now another file's.
    const int fd = PageGuard::of_this_process()->fd();
    const int other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return ::dup2(other, fd) == fd && moves_a_page() && ::fcntl(fd, F_GETFD) >= 0;
  }));
}

TEST(MapsFile, IsOpenedOnce) {
  ASSERT_TRUE(moves_a_page());
  const int fd = MapsFile::of_this_process();
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(moves_a_page());
  EXPECT_EQ(MapsFile::of_this_process(), fd);
}

TEST(MapsFile, IsOpenedAgainWhereTheProgramClosedIt) {
  ASSERT_TRUE(moves_a_page());
  EXPECT_TRUE(holds_in_child([] {
    // The number is now of another process's mappings, in which nothing of this one is found.
    const int fd = MapsFile::of_this_process();
    const auto path = "/proc/" + std::to_string(::getppid()) + "/maps";
    const int other = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    return ::dup2(other, fd) == fd && moves_a_page() && MapsFile::of_this_process() != fd;
  }));
}

TEST(PageArena, IsNotWrittenBeyondALimitThatCameLater) {
  ASSERT_TRUE(moves_a_page());
  EXPECT_TRUE(holds_in_child([] {  // which SIGXFSZ would end
    if (!moves_a_page()) return false;
    const rlimit limit{.rlim_cur = kPage, .rlim_max = RLIM_INFINITY};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 && moves_a_page();
  }));
}

}  // namespace
}  // namespace uroce::sharing
