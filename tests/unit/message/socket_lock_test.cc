#include "message/socket_lock.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace uroce::message {
namespace {

class SocketLock : public testing::Test {
 protected:
  SocketLock() {
    std::string name = testing::TempDir() + "uroce-lock-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~SocketLock() override { std::filesystem::remove_all(folder_); }

  LockFile opened() {
    auto file = LockFile::open(socket(), false);
    EXPECT_TRUE(file.has_value());
    return file ? std::move(*file) : LockFile();
  }
  std::string socket() const { return folder_ + "/run/uroced.sock"; }
  std::string lock() const { return socket() + ".lock"; }

  std::string folder_;
};

TEST_F(SocketLock, OneOwnerAtATime) {
  {
    const auto first = SocketOwner::take(socket());
    ASSERT_TRUE(first.has_value()) << first.error().text;
    const auto second = SocketOwner::take(socket());
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_NE(second.error().text.find("process " + std::to_string(getpid())), std::string::npos)
        << second.error().text;
    EXPECT_EQ(second.error().text.find("uroce-run"), std::string::npos) << second.error().text;
  }
  EXPECT_FALSE(std::filesystem::exists(lock()));
  EXPECT_TRUE(SocketOwner::take(socket()).has_value());
}

TEST_F(SocketLock, SaysThatUroceRunStartedIt) {
  const auto owner = SocketOwner::take(socket(), true);
  ASSERT_TRUE(owner.has_value());
  EXPECT_TRUE(opened().holder().of_uroce_run);
  EXPECT_NE(SocketOwner::take(socket()).error().text.find("uroce-run started it"), std::string::npos);
}

TEST_F(SocketLock, ADeadOwnersFileIsTaken) {
  const pid_t child = fork();
  if (child == 0) {
    auto owner = SocketOwner::take(socket());
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_TRUE(std::filesystem::exists(lock()));
  EXPECT_TRUE(SocketOwner::take(socket()).has_value());
}

// An owner has the lock a moment before it writes its name. The file then names the one that died.
TEST_F(SocketLock, TheRefusalNamesTheOwnerOfNowNotADeadOne) {
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  ASSERT_EQ(waitpid(dead, nullptr, 0), dead);
  const auto owner = SocketOwner::take(socket());
  ASSERT_TRUE(owner.has_value());
  owner->file().write_holder({.process = dead});
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    owner->file().write_holder({.process = getpid()});
  });
  const auto second = SocketOwner::take(socket());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().text.find("process " + std::to_string(getpid())), std::string::npos) << second.error().text;
}

TEST_F(SocketLock, AChildAdoptsIt) {
  auto owner = SocketOwner::take(socket(), true);
  ASSERT_TRUE(owner.has_value());
  const int copy = dup(owner->file().fd());
  owner->leave_file();
  EXPECT_FALSE(SocketOwner::take(socket()).has_value());
  {
    const auto adopted = SocketOwner::adopt(socket(), copy);
    ASSERT_TRUE(adopted.has_value()) << adopted.error().text;
    EXPECT_FALSE(SocketOwner::take(socket()).has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(lock()));
}

TEST_F(SocketLock, AnotherFileIsNotAdopted) {
  const auto owner = SocketOwner::take(socket());
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(SocketOwner::adopt(socket(), dup(STDERR_FILENO)).error().code, EINVAL);
  EXPECT_EQ(SocketOwner::adopt(socket(), opened().fd()).error().code, EINVAL);
}

TEST_F(SocketLock, UsersShareAndKeepTheLastOneOut) {
  const auto owner = SocketOwner::take(socket(), true);
  ASSERT_TRUE(owner.has_value());
  {
    const LockFile one = opened(), two = opened();
    EXPECT_TRUE(one.lock(LockByte::users, LockKind::shared));
    EXPECT_TRUE(two.lock(LockByte::users, LockKind::shared));
    EXPECT_EQ(owner->file().held_by_others(LockByte::users), LockKind::shared);
    EXPECT_EQ(owner->file().held_by_others(LockByte::claim), LockKind::none);
    EXPECT_FALSE(owner->file().lock(LockByte::users, LockKind::exclusive));
  }
  EXPECT_TRUE(owner->file().lock(LockByte::users, LockKind::exclusive));
  const LockFile late = opened();
  EXPECT_FALSE(late.lock(LockByte::users, LockKind::shared));
  EXPECT_EQ(late.held_by_others(LockByte::users), LockKind::exclusive);
}

TEST_F(SocketLock, AFileThatTheOwnerRemovedIsNotCurrent) {
  LockFile old;
  {
    const auto owner = SocketOwner::take(socket());
    ASSERT_TRUE(owner.has_value());
    old = opened();
    EXPECT_TRUE(old.current());
  }
  EXPECT_FALSE(old.current());
  const auto next = SocketOwner::take(socket());
  EXPECT_FALSE(old.current());
  EXPECT_TRUE(next->file().current());
}

TEST_F(SocketLock, ThePathHasALimit) {
  EXPECT_EQ(SocketOwner::take("").error().code, EINVAL);
  EXPECT_EQ(SocketOwner::take("/" + std::string(108, 'x')).error().code, EINVAL);
}

}  // namespace
}  // namespace uroce::message
