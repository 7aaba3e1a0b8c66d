// The process that outlives the daemon: when it acts, and in whose memory.
#include "uroced/keeper.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::daemon {
namespace {

/// Of a process that lives as `live` says, with a keeper that says what it finds in the memory: all that was said.
std::string said_after(const std::function<void(Keeper&, std::string&)>& live) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t daemon = fork();
  if (daemon == 0) {
    close(ends[0]);
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    std::string memory = "as it was";
    Keeper keeper;
    const auto started = keeper.start([&] { (void)!write(ends[1], memory.data(), memory.size()); });
    if (!started || !keeper.running()) _exit(77);
    live(keeper, memory);
    keeper.dismiss();
    _exit(0);
  }
  close(ends[1]);
  waitpid(daemon, nullptr, 0);
  std::string said;
  std::array<char, 64> buffer{};
  pollfd more{ends[0], POLLIN, 0};
  while (poll(&more, 1, 10'000) == 1) {  // until the keeper has ended, too
    const ssize_t count = read(ends[0], buffer.data(), buffer.size());
    if (count <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  return said;
}

TEST(KeeperTest, OutlivesKill) {
  EXPECT_EQ(said_after([](Keeper&, std::string& memory) {
              memory = "as it is";
              kill(getpid(), SIGKILL);
            }),
            "as it is");
}

TEST(KeeperTest, OutlivesFault) {
  EXPECT_EQ(said_after([](Keeper&, std::string&) {
              signal(SIGSEGV, SIG_DFL);
              raise(SIGSEGV);
            }),
            "as it was");
}

TEST(KeeperTest, SeesWhatThreadsWrote) {
  EXPECT_EQ(said_after([](Keeper&, std::string& memory) {
              memory = "of another thread";
              std::thread([] { kill(getpid(), SIGKILL); }).join();
            }),
            "of another thread");
}

TEST(KeeperTest, IsDismissed) {
  EXPECT_EQ(said_after([](Keeper&, std::string&) {}), "");
}

TEST(KeeperTest, StartsAgain) {
  EXPECT_EQ(said_after([](Keeper& keeper, std::string&) {
              keeper.dismiss();
              EXPECT_FALSE(keeper.running());
              EXPECT_TRUE(keeper.start([] {}).has_value());
            }),
            "");
}

}  // namespace
}  // namespace uroce::daemon
