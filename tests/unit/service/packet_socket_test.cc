#include "service/packet_socket.h"

#include <array>
#include <cerrno>
#include <functional>
#include <span>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message/connection.h"

namespace uroce::service {
namespace {

message::Fd packet_socket() { return message::Fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)); }

/// One end of a connection that the calling process has made. The other end stays open.
message::Fd connection_of_this_process() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  return message::Fd(ends[0]);
}

/// A process that does `prepare`, and sends a connection of its own and a packet socket.
class Program {
 public:
  explicit Program(const std::function<bool()>& prepare) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    child_ = fork();
    if (child_ == 0) {
      message::Connection parent{message::Fd(ends[1])};
      if (!prepare()) _exit(1);
      const message::Fd connection = connection_of_this_process(), packets = packet_socket();
      if (!packets || !parent.send(std::as_bytes(std::span("x")), {{connection.get(), packets.get()}})) _exit(2);
      pause();
    }
    close(ends[1]);
    auto packet = message::Connection(message::Fd(ends[0])).receive();
    if (packet) fds_ = std::move(packet->fds);
  }
  ~Program() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool started() const { return fds_.size() == 2; }
  int connection() const { return fds_[0].get(); }
  int packets() const { return fds_[1].get(); }

 private:
  pid_t child_ = -1;
  std::vector<message::Fd> fds_;
};

class PacketSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!packet_socket()) GTEST_SKIP() << "packet sockets need CAP_NET_RAW";
  }
  bool proves(int fd, int connection) const {
    const auto checked = check_packet_socket(fd, connection, daemon_);
    if (!checked) {
      EXPECT_EQ(checked.error().code, EPERM) << checked.error().text;
    }
    return checked.has_value();
  }

  const DaemonRights daemon_ = DaemonRights::of_this_process();
  const message::Fd own_ = connection_of_this_process();
};

TEST_F(PacketSocketTest, OfTheDaemonsNetworkIsAProof) {
  const message::Fd packets = packet_socket();
  EXPECT_TRUE(proves(packets.get(), own_.get()));
  const Program ended([] { return false; });
  EXPECT_FALSE(ended.started());
}

TEST_F(PacketSocketTest, NothingElseIs) {
  for (const message::Fd& fd :
       {message::Fd(socket(AF_UNIX, SOCK_DGRAM, 0)), message::Fd(socket(AF_INET, SOCK_DGRAM, 0)),
        message::Fd(socket(AF_NETLINK, SOCK_RAW, 0)), message::Fd(open("/dev/null", O_RDWR)),
        message::Fd(open("/proc/self/ns/net", O_RDONLY)), message::Fd(open("/", O_PATH))}) {
    ASSERT_TRUE(fd);
    EXPECT_FALSE(proves(fd.get(), own_.get()));
  }
}

// The attack: everybody has CAP_NET_RAW in namespaces that he has made.
TEST_F(PacketSocketTest, OfAUserNamespaceIsNot) {
  const Program contained(
      [] { return setresuid(1001, 1001, 1001) == 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; });
  if (!contained.started()) GTEST_SKIP() << "this machine allows no user namespace";
  EXPECT_FALSE(proves(contained.packets(), contained.connection()));
  EXPECT_FALSE(proves(contained.packets(), own_.get())) << "passed to a process outside";
}

// A container's root with CAP_NET_RAW, but without a user namespace of its own.
TEST_F(PacketSocketTest, OfAnotherNetworkInTheDaemonsUserNamespaceIsAProof) {
  const Program container([] { return unshare(CLONE_NEWNET) == 0; });
  if (!container.started()) GTEST_SKIP() << "this machine allows no network namespace";
  EXPECT_TRUE(proves(container.packets(), container.connection()));
  EXPECT_FALSE(proves(container.packets(), own_.get())) << "whose namespace it is cannot be told";
}

TEST_F(PacketSocketTest, ADaemonWithoutRightsKnowsThemAsWell) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const Program container([] { return unshare(CLONE_NEWNET) == 0; });
  const Program contained([] { return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0; });
  if (!container.started() || !contained.started()) GTEST_SKIP() << "this machine allows no namespaces";
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(4711, 4711, 4711) != 0) _exit(2);
    _exit(proves(container.packets(), container.connection()) && !proves(contained.packets(), contained.connection())
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::service
