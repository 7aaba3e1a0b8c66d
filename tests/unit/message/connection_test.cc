#include "message/connection.h"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message/protocol.h"

namespace uroce::message {
namespace {

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

TEST(Connection, RefusesTooLargeMessages) {
  Ends ends;
  EXPECT_EQ(ends.a.send(std::vector<std::byte>(kMaxPacket + 1), {}).error().code, EMSGSIZE);
  const std::vector<std::byte> large(kMaxPacket + 1);
  ASSERT_EQ(send(ends.a.fd(), large.data(), large.size(), 0), static_cast<ssize_t>(large.size()));
  EXPECT_EQ(ends.b.receive().error().code, EPROTO);
}

TEST(Connection, NoSocketThereIsAnError) {
  EXPECT_EQ(Connection::to("/nonexistent/socket").error().code, ENOENT);
  EXPECT_EQ(Connection::to(std::string(200, 'x')).error().code, ENAMETOOLONG);
}

}  // namespace
}  // namespace uroce::message
