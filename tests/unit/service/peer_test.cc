#include "service/peer.h"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <span>
#include <string>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message/connection.h"

namespace uroce::service {
namespace {

/// A connection from a child process, which did `prepare` first, as the parent sees it.
template <class Prepare>
Peer peer_of_child(Prepare prepare, bool& prepared) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  message::Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  // The kernel chooses a name (autobind, unix(7)).
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  socklen_t length = sizeof address;
  EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  std::array<int, 2> until{};
  EXPECT_EQ(pipe(until.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool done = prepare();
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) _exit(2);
    close(until[1]);
    char end = 0;
    [[maybe_unused]] const auto waited = read(until[0], &end, 1);
    _exit(done ? 0 : 1);
  }
  const message::Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Peer peer = Peer::of(accepted.get(), DaemonRights::of_this_process());
  close(until[0]);
  close(until[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(peer.pid, child);
  prepared = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return peer;
}

TEST(Peer, TheDaemonsOwnUserIsPrivileged) {
  bool prepared = false;
  const Peer peer = peer_of_child([] { return true; }, prepared);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_TRUE(peer.privileged);
  EXPECT_FALSE(peer.command.empty());
}

TEST(Peer, AnotherUserIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  bool prepared = false;
  const Peer peer = peer_of_child([] { return setresuid(1001, 1001, 1001) == 0; }, prepared);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(peer.uid, 1001u);
  EXPECT_FALSE(peer.privileged);
}

/// Connects to the listener, leaves the connection to a child, and becomes `program`. Returns the process.
pid_t connect_and_run(const sockaddr_un& address, socklen_t length, const std::string& program) {
  const pid_t child = fork();
  if (child != 0) return child;
  const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setresuid(1001, 1001, 1001) != 0) _exit(2);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) _exit(2);
  const pid_t self = getpid();
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == self) pause();
    _exit(0);
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  execl(program.c_str(), program.c_str(), "60", nullptr);
  _exit(3);
}

// The attack: an ordinary process connects, and has become a set-uid program when its rights are read.
TEST(Peer, WhatItsProcessRunsLaterGivesItNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes set-uid programs";
  const std::string program = testing::TempDir() + "uroce-set-uid-" + std::to_string(getpid());
  std::filesystem::copy_file("/bin/sleep", program, std::filesystem::copy_options::overwrite_existing);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  message::Fd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const pid_t child = connect_and_run(address, length, program);
  const std::string exe = "/proc/" + std::to_string(child) + "/exe";
  std::error_code error;
  while (std::filesystem::read_symlink(exe, error) != program && kill(child, 0) == 0) usleep(1000);
  const message::Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Peer peer = Peer::of(accepted.get(), DaemonRights::of_this_process());
  EXPECT_EQ(peer.pid, child);
  EXPECT_EQ(peer.uid, 1001u);
  EXPECT_FALSE(peer.privileged);
  EXPECT_EQ(peer.locked_bytes, 0u) << "such a program may have raised its limit";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  std::filesystem::remove(program);
}

TEST(Peer, OfAProcessThatHasEndedNothingIsKnown) {
  const message::Fd accepted = [] {
    std::array<int, 2> to_child{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to_child.data()), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::array<int, 2> made{};
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made.data()) != 0) _exit(2);
      message::Connection parent{message::Fd(to_child[1])};
      _exit(parent.send(std::as_bytes(std::span("x")), {{made[0]}}) ? 0 : 1);
    }
    close(to_child[1]);
    message::Connection from_child{message::Fd(to_child[0])};
    auto packet = from_child.receive();
    waitpid(child, nullptr, 0);
    return packet ? std::move(packet->fds.at(0)) : message::Fd();
  }();
  ASSERT_TRUE(accepted);
  const Peer peer = Peer::of(accepted.get(), DaemonRights::of_this_process());
  EXPECT_NE(peer.pid, 0);
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_FALSE(peer.privileged);
  EXPECT_TRUE(peer.command.empty());
}

TEST(Peer, TheSameUserOfAnotherUserNamespaceIsNot) {
  bool prepared = false;
  const Peer peer = peer_of_child([] { return unshare(CLONE_NEWUSER) == 0; }, prepared);
  if (!prepared) GTEST_SKIP() << "this machine allows no user namespace";
  EXPECT_EQ(peer.uid, geteuid()) << "the kernel translates it";
  EXPECT_FALSE(peer.privileged);
}

TEST(Peer, TheOwnerOfItsUserNamespaceIsKnown) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  bool prepared = false;
  const auto in_namespaces = [](int levels) {
    return [levels] {
      bool done = setresuid(1001, 1001, 1001) == 0;
      for (int i = 0; i < levels; ++i) done = done && unshare(CLONE_NEWUSER) == 0;
      return done;
    };
  };
  EXPECT_EQ(peer_of_child(in_namespaces(0), prepared).namespace_owner, std::nullopt);
  EXPECT_EQ(peer_of_child([] { return unshare(CLONE_NEWUSER) == 0; }, prepared).namespace_owner, std::nullopt)
      << "root is no owner";
  const Peer peer = peer_of_child(in_namespaces(1), prepared);
  if (!prepared) GTEST_SKIP() << "this machine allows no user namespace";
  EXPECT_EQ(peer.namespace_owner, 1001u);
}

TEST(Peer, ItsLimitOfLockedMemoryIsKnown) {
  bool prepared = false;
  const Peer peer = peer_of_child(
      [] {
        const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
        return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
      },
      prepared);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(peer.locked_bytes, 65536u);
}

TEST(Peer, ADaemonThatGaveRootUpKnowsTheLimitAsWell) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kOrdinary = 4711;
  const pid_t daemon = fork();
  if (daemon == 0) {
    bool prepared = false;
    if (setresuid(kOrdinary, kOrdinary, 0) != 0) _exit(2);
    const Peer peer = peer_of_child(
        [] {
          const rlimit limit{.rlim_cur = 65536, .rlim_max = 65536};
          return setresuid(0, 0, 0) == 0 && setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
        },
        prepared);
    _exit(prepared && peer.uid == 0 && peer.locked_bytes == 65536 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(daemon, &status, 0), daemon);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::service
