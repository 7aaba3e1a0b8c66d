#include "service/peer.h"

#include <gtest/gtest.h>

#include <array>

#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

TEST(Peer, RawPacketsNeedTheirCapabilityHere) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives capabilities";
  bool prepared = false;
  EXPECT_TRUE(peer_of_child([] { return true; }, prepared).net_raw);
  EXPECT_FALSE(peer_of_child([] { return setresuid(1001, 1001, 1001) == 0; }, prepared).net_raw);
  const auto keep_net_raw = [] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2]{};
    data[0].effective = data[0].permitted = 1u << CAP_NET_RAW;
    return prctl(PR_SET_KEEPCAPS, 1) == 0 && setresuid(1001, 1001, 1001) == 0 &&
           syscall(SYS_capset, &header, data) == 0;
  };
  const Peer peer = peer_of_child(keep_net_raw, prepared);
  ASSERT_TRUE(prepared);
  EXPECT_TRUE(peer.net_raw);
  EXPECT_FALSE(peer.privileged);
  const Peer elsewhere = peer_of_child([] { return unshare(CLONE_NEWUSER) == 0; }, prepared);
  if (prepared) {
    EXPECT_FALSE(elsewhere.net_raw) << "of another user namespace";
  }
}

TEST(Peer, TheSameUserOfAnotherUserNamespaceIsNot) {
  bool prepared = false;
  const Peer peer = peer_of_child([] { return unshare(CLONE_NEWUSER) == 0; }, prepared);
  if (!prepared) GTEST_SKIP() << "this machine allows no user namespace";
  EXPECT_EQ(peer.uid, geteuid()) << "the kernel translates it";
  EXPECT_FALSE(peer.privileged);
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
