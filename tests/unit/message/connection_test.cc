#include "message/connection.h"

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "message/protocol.h"

namespace uroce::message {
namespace {

constexpr std::chrono::milliseconds kPatience{20};

struct Ends {
  Ends() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    a = Connection(Fd(fds[0]));
    b = Connection(Fd(fds[1]));
  }
  Connection a{Fd()};
  Connection b{Fd()};
};

TEST(Connection, PacketsKeepTheirBoundsAndDescriptors) {
  Ends ends;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(ends.a.send(bytes, pipe_ends));
  ASSERT_TRUE(ends.a.send(std::span(bytes).first(1), {}));
  auto first = ends.b.receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->bytes.size(), 3u);
  ASSERT_EQ(first->fds.size(), 2u);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  EXPECT_EQ(write(first->fds[1].get(), "x", 1), 1);
  char got = 0;
  EXPECT_EQ(read(first->fds[0].get(), &got, 1), 1);
  auto second = ends.b.receive();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes.size(), 1u);
  EXPECT_TRUE(second->fds.empty());
}

TEST(WriteToken, AFullPipeIsGoodAndAnAbandonedOneRaisesNoSignal) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  EXPECT_TRUE(write_token(ends[1]));
  char token = 0;
  EXPECT_EQ(read(ends[0], &token, 1), 1);
  EXPECT_EQ(token, 1);
  while (write(ends[1], "full", 4) > 0) {
  }
  EXPECT_TRUE(write_token(ends[1]));
  close(ends[0]);
  EXPECT_FALSE(write_token(ends[1])) << "SIGPIPE would have ended this program";
  close(ends[1]);
}

TEST(Connection, SaysWhenTheOtherEndIsGone) {
  Ends ends;
  ends.b = Connection(Fd());
  EXPECT_EQ(ends.a.receive().error().code, ECONNRESET);
  const std::byte byte{};
  EXPECT_EQ(ends.a.send({&byte, 1}, {}).error().code, EPIPE);
}

TEST(Connection, WaitsNoLongerThanItsPatience) {
  Ends ends;
  ends.a.set_timeouts(std::chrono::milliseconds(10), std::chrono::milliseconds(10));
  EXPECT_EQ(ends.a.receive().error().code, ETIMEDOUT);
  const std::vector<std::byte> bytes(kMaxPacket);
  Result<void> sent;
  for (int i = 0; i < 1000 && sent; ++i) sent = ends.a.send(bytes, {});
  EXPECT_EQ(sent.error().code, ETIMEDOUT) << "the other end reads nothing";
}

TEST(Connection, TellsWhetherAPacketIsThere) {
  Ends ends;
  EXPECT_FALSE(ends.a.readable_within(std::chrono::milliseconds(0)));
  EXPECT_FALSE(ends.a.readable_within(kPatience));
  const std::byte byte{};
  ASSERT_TRUE(ends.b.send({&byte, 1}, {}));
  EXPECT_TRUE(ends.a.readable_within(std::chrono::milliseconds(0)));
  ASSERT_TRUE(ends.a.receive());
  ends.b = Connection(Fd());
  EXPECT_TRUE(ends.a.readable_within(std::chrono::minutes(1))) << "the other end is gone";
}

TEST(Connection, NamesTheProcessAtTheOtherEnd) {
  EXPECT_EQ(Ends().a.peer_process(), getpid());
  EXPECT_EQ(Connection(Fd()).peer_process(), 0);
}

TEST(Connection, RefusesTooLargeMessages) {
  Ends ends;
  EXPECT_EQ(ends.a.send(std::vector<std::byte>(kMaxPacket + 1), {}).error().code, EMSGSIZE);
  const std::vector<std::byte> large(kMaxPacket + 1);
  ASSERT_EQ(send(ends.a.fd(), large.data(), large.size(), 0), static_cast<ssize_t>(large.size()));
  EXPECT_EQ(ends.b.receive().error().code, EPROTO);
}

TEST(Connection, NoSocketThereIsAnError) {
  EXPECT_EQ(Connection::to("/nonexistent/socket", kPatience).error().code, ENOENT);
  EXPECT_EQ(Connection::to(std::string(200, 'x'), kPatience).error().code, ENAMETOOLONG);
}

/// A socket that listens and takes no connection, as a stopped daemon's.
struct Deaf {
  Deaf() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    unlink(path.c_str());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd.get(), 1), 0);
  }
  ~Deaf() { unlink(path.c_str()); }
  /// Connections until one fails; its error.
  Error fill() {
    while (waiting.size() < 16) {
      auto next = Connection::to(path, kPatience);
      if (!next) return next.error();
      waiting.push_back(std::move(*next));
    }
    return {};
  }
  const std::string path = testing::TempDir() + "deaf." + std::to_string(getpid());
  Fd fd{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  std::vector<Connection> waiting;
};

TEST(Connection, AFullBacklogIsNotWaitedForForEver) {
  Deaf daemon;
  const Error error = daemon.fill();
  EXPECT_EQ(error.code, ETIMEDOUT);
  for (const std::string& word : {daemon.path, std::string("within 20 ms"), std::string("restart it")}) {
    EXPECT_NE(error.text.find(word), std::string::npos) << error.text;
  }
}

// A timer's signals must neither end the wait nor prolong it.
TEST(Connection, SignalsDoNotEndTheWaitForAFullBacklog) {
  Deaf daemon;
  ASSERT_EQ(daemon.fill().code, ETIMEDOUT);
  struct sigaction before{};
  struct sigaction nothing{};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &nothing, &before);
  const itimerval often{.it_interval = {0, 1000}, .it_value = {0, 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto refused = Connection::to(daemon.path, kPatience);
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ETIMEDOUT);
}

TEST(Connection, OnceItIsThereSendingWaitsForEver) {
  Deaf daemon;
  auto made = Connection::to(daemon.path, kPatience);
  ASSERT_TRUE(made);
  timeval timeout{.tv_sec = 1, .tv_usec = 1};
  socklen_t size = sizeof timeout;
  ASSERT_EQ(getsockopt(made->fd(), SOL_SOCKET, SO_SNDTIMEO, &timeout, &size), 0);
  EXPECT_EQ(timeout.tv_sec, 0);
  EXPECT_EQ(timeout.tv_usec, 0);
}

}  // namespace
}  // namespace uroce::message
