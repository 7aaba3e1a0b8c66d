// rsockets of this process with each other, over two devices.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>

#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "dropin/rsocket/socket.h"
#include "socket_address.h"

namespace {

short poll_for(int fd, short events, int timeout) {
  pollfd one{fd, events, 0};
  return rpoll(&one, 1, timeout) > 0 ? one.revents : static_cast<short>(0);
}

/// Two ends of a connection.
class Stream : public testing::Test {
 protected:
  void SetUp() override {
    listener_ = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(listener_, 0) << std::strerror(errno);
    near_ = rsocket(AF_INET, SOCK_STREAM, 0);
    prepare();
    const auto any = address("10.117.0.1");
    ASSERT_EQ(rbind(listener_, plain(any), sizeof(any)), 0);
    ASSERT_EQ(rlisten(listener_, 1), 0);
    sockaddr_in at{};
    socklen_t length = sizeof(at);
    ASSERT_EQ(rgetsockname(listener_, reinterpret_cast<sockaddr*>(&at), &length), 0);
    ASSERT_EQ(rconnect(near_, plain(at), sizeof(at)), 0) << std::strerror(errno);
    length = sizeof(from_);
    far_ = raccept(listener_, reinterpret_cast<sockaddr*>(&from_), &length);
    ASSERT_GE(far_, 0) << std::strerror(errno);
  }
  void TearDown() override {
    std::thread closes([&] { rclose(near_); });
    rclose(far_);
    closes.join();
    rclose(listener_);
  }
  virtual void prepare() {}

  /// Sends from one end while the other receives, in sizes that the seed decides. True when all bytes are equal.
  bool exchange(std::size_t size) {
    std::vector<char> out(size), in(size);
    for (char& each : out) each = static_cast<char>(random_());
    std::thread sender([&] {
      for (std::size_t at = 0; at < size;) {
        const ssize_t sent = rsend(near_, out.data() + at, std::min<std::size_t>(size - at, 1 + at % 70000), 0);
        if (sent <= 0) break;
        at += static_cast<std::size_t>(sent);
      }
    });
    const ssize_t received = rrecv(far_, in.data(), size, MSG_WAITALL);
    sender.join();
    return received == static_cast<ssize_t>(size) && in == out;
  }

  int listener_ = -1, near_ = -1, far_ = -1;
  sockaddr_in from_{};
  const unsigned seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, std::to_string(seed_)};
  std::mt19937 random_{seed_};
};

TEST_F(Stream, MovesBytesOfAnyNumber) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 2048u, 65536u, 131072u, 1'000'000u}) EXPECT_TRUE(exchange(size));
}

TEST_F(Stream, KnowsBothEnds) {
  EXPECT_EQ(from_.sin_addr.s_addr, address("10.117.0.2").sin_addr.s_addr);
  sockaddr_in other{};
  socklen_t length = sizeof(other);
  ASSERT_EQ(rgetpeername(near_, reinterpret_cast<sockaddr*>(&other), &length), 0);
  EXPECT_EQ(length, sizeof(other));
  EXPECT_EQ(other.sin_addr.s_addr, address("10.117.0.1").sin_addr.s_addr);
}

TEST_F(Stream, PeekLeavesTheBytes) {
  ASSERT_EQ(rsend(near_, "abcdef", 6, 0), 6);
  char buffer[8] = {};
  ASSERT_NE(poll_for(far_, POLLIN, 20000), 0);
  EXPECT_EQ(rrecv(far_, buffer, 4, MSG_PEEK), 4);
  EXPECT_EQ(rrecv(far_, buffer, 8, 0), 6);
  EXPECT_STREQ(buffer, "abcdef");
}

TEST_F(Stream, ScatterAndGather) {
  char hello[] = "hello, ", world[] = "world";
  const iovec out[] = {{hello, 7}, {nullptr, 0}, {world, 5}};
  ASSERT_EQ(rwritev(near_, out, 3), 12);
  ASSERT_NE(poll_for(far_, POLLIN, 20000), 0);
  char first[3] = {}, second[16] = {};
  const iovec in[] = {{first, 3}, {second, 16}};
  EXPECT_EQ(rreadv(far_, in, 2), 12);
  EXPECT_EQ(std::string(first, 3) + second, "hello, world");
}

TEST_F(Stream, NonBlockingCallsSayThatTheyWould) {
  char byte = 0;
  EXPECT_EQ(rrecv(far_, &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
  ASSERT_EQ(rfcntl(near_, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(rfcntl(near_, F_GETFL), O_NONBLOCK);
  std::vector<char> much(1 << 20);
  ssize_t sent = 0;
  while ((sent = rsend(near_, much.data(), much.size(), 0)) > 0) {
  }
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_EQ(poll_for(near_, POLLOUT, 0), 0);
  EXPECT_EQ(poll_for(near_, POLLIN, 20), 0);
  EXPECT_GT(rrecv(far_, much.data(), much.size(), 0), 0);
  EXPECT_EQ(poll_for(near_, POLLOUT, 20000), POLLOUT);
}

TEST_F(Stream, PollIsWokenByData) {
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    rsend(near_, "x", 1, 0);
  });
  EXPECT_EQ(poll_for(far_, POLLIN, 20000), POLLIN);
  sender.join();
}

TEST_F(Stream, HalfCloseLeavesTheOtherWayOpen) {
  ASSERT_EQ(rsend(near_, "last", 4, 0), 4);
  ASSERT_EQ(rshutdown(near_, SHUT_WR), 0);
  char buffer[8] = {};
  EXPECT_EQ(rrecv(far_, buffer, sizeof(buffer), MSG_WAITALL), 4);
  EXPECT_EQ(rrecv(far_, buffer, sizeof(buffer), 0), 0);
  EXPECT_EQ(rsend(near_, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPIPE);
  ASSERT_EQ(rsend(far_, "answer", 6, 0), 6);
  EXPECT_EQ(rrecv(near_, buffer, 6, MSG_WAITALL), 6);
}

TEST_F(Stream, CloseEndsTheOtherSide) {
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(rclose(near_), 0);
  });
  char byte = 0;
  EXPECT_EQ(rrecv(far_, &byte, 1, 0), 0);
  closer.join();
  EXPECT_NE(poll_for(far_, POLLIN, 20000) & POLLHUP, 0);
  EXPECT_EQ(rsend(far_, "x", 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(Stream, TheEndHidesNoBytes) {
  ASSERT_EQ(rsend(near_, "last", 4, 0), 4);
  ASSERT_EQ(rclose(std::exchange(near_, -1)), 0);
  // Nobody looks at the far end's queue: it hears of the end from the connection manager alone.
  tcp_info info{};
  for (int tries = 0; tries < 2000; ++tries) {
    socklen_t length = sizeof(info);
    ASSERT_EQ(rgetsockopt(far_, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    if (info.tcpi_state != TCP_ESTABLISHED) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_NE(info.tcpi_state, TCP_ESTABLISHED) << "no end within 20 s";
  const auto far = uroce::dropin::rsocket::table::find(far_);
  ASSERT_NE(far, nullptr);
  EXPECT_EQ(far->arm(POLLIN), POLLIN) << "the hang-up waits until all is read";
  char buffer[8] = {};
  EXPECT_EQ(rrecv(far_, buffer, sizeof(buffer), 0), 4);
  EXPECT_NE(far->arm(POLLIN) & POLLHUP, 0);
}

TEST_F(Stream, SelectMarksReadyDescriptors) {
  ASSERT_EQ(rsend(near_, "x", 1, 0), 1);
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_ZERO(&writable);
  FD_SET(far_, &readable);
  FD_SET(listener_, &readable);
  FD_SET(near_, &writable);
  timeval time{5, 0};
  ASSERT_GE(rselect(std::max({far_, listener_, near_}) + 1, &readable, &writable, nullptr, &time), 1);
  EXPECT_TRUE(FD_ISSET(near_, &writable));
  EXPECT_FALSE(FD_ISSET(listener_, &readable));
}

TEST_F(Stream, OptionsAreKept) {
  int value = 1;
  socklen_t length = sizeof(value);
  EXPECT_EQ(rsetsockopt(near_, IPPROTO_TCP, TCP_NODELAY, &value, sizeof(value)), 0);
  value = 0;
  EXPECT_EQ(rgetsockopt(near_, IPPROTO_TCP, TCP_NODELAY, &value, &length), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(rgetsockopt(near_, IPPROTO_TCP, TCP_MAXSEG, &value, &length), 0);
  EXPECT_GE(value, 1024);
  EXPECT_EQ(rgetsockopt(near_, SOL_SOCKET, SO_ERROR, &value, &length), 0);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(rsetsockopt(near_, SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)), -1);  // too late
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rsetsockopt(near_, SOL_SOCKET, SO_BROADCAST, &value, sizeof(value)), -1);
  EXPECT_EQ(errno, ENOTSUP);
  value = 1;
  EXPECT_EQ(rsetsockopt(near_, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof(value)), 0);
  EXPECT_EQ(rsetsockopt(near_, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value)), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // one message of it
  EXPECT_TRUE(exchange(1000));
}

TEST_F(Stream, TcpInfoHasTheStateAndTheSizes) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  ASSERT_EQ(rgetsockopt(near_, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  EXPECT_EQ(length, sizeof(info));
  EXPECT_EQ(info.tcpi_state, TCP_ESTABLISHED);
  EXPECT_GE(info.tcpi_snd_mss, 1024u);
  ASSERT_EQ(rgetsockopt(listener_, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  EXPECT_EQ(info.tcpi_state, TCP_LISTEN);
  length = 1;
  ASSERT_EQ(rgetsockopt(near_, IPPROTO_TCP, TCP_INFO, &info, &length), 0) << "programs of older headers ask for less";
  EXPECT_EQ(length, 1u);
  EXPECT_EQ(info.tcpi_state, TCP_ESTABLISHED);
}

/// Small queues and buffers: every bound is reached many times.
class NarrowStream : public Stream {
 protected:
  void prepare() override {
    for (const int fd : {listener_, near_}) {
      int queue = 16, bytes = 3000, entries = 4;
      rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &queue, sizeof(queue));
      rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &queue, sizeof(queue));
      rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof(entries));
      rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
      rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
  }
};

TEST_F(NarrowStream, MovesMuchThroughLittle) { EXPECT_TRUE(exchange(500'000)); }

TEST_F(NarrowStream, MovesManyLittlePieces) {
  std::thread sender([&] {
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(rsend(near_, &i, sizeof(i), 0), 4);
  });
  for (int i = 0; i < 5000; ++i) {
    int got = -1;
    ASSERT_EQ(rrecv(far_, &got, sizeof(got), MSG_WAITALL), 4);
    ASSERT_EQ(got, i);
  }
  sender.join();
}

TEST_F(NarrowStream, MappedBuffersAreWrittenInPlace) {
  std::vector<char> buffer(10000, '.');
  ASSERT_EQ(riomap(far_, buffer.data(), buffer.size(), PROT_WRITE, 0, 100), 100);
  ASSERT_EQ(rsend(far_, "mapped", 6, 0), 6);  // sends the mapping first
  char word[6];
  ASSERT_EQ(rrecv(near_, word, 6, MSG_WAITALL), 6);
  const std::string text(9000, 'x');
  ASSERT_EQ(riowrite(near_, text.data(), text.size(), 600, 0), text.size());
  ASSERT_EQ(rsend(near_, "done", 4, 0), 4);
  ASSERT_EQ(rrecv(far_, word, 4, MSG_WAITALL), 4);
  EXPECT_EQ(std::string(buffer.data() + 500, 9000), text);
  EXPECT_EQ(buffer[499], '.');
  EXPECT_EQ(buffer[9500], '.');
  EXPECT_EQ(riowrite(near_, "x", 1, 99, 0), 0u);  // not mapped
  EXPECT_EQ(riounmap(far_, buffer.data(), buffer.size()), 0);
  EXPECT_EQ(riounmap(far_, buffer.data(), buffer.size()), -1);
  std::vector<char> more(64);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(riomap(far_, more.data(), more.size(), PROT_WRITE, 0, i * 64), i * 64);
  EXPECT_EQ(riomap(far_, more.data(), more.size(), PROT_WRITE, 0, 0), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(Rsocket, NonBlockingConnect) {
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  const auto at = address("10.117.0.1");
  ASSERT_EQ(rbind(listener, plain(at), sizeof(at)), 0);
  ASSERT_EQ(rlisten(listener, 1), 0);
  rfcntl(listener, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(raccept(listener, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  sockaddr_in there{};
  socklen_t length = sizeof(there);
  rgetsockname(listener, reinterpret_cast<sockaddr*>(&there), &length);
  const int client = rsocket(AF_INET, SOCK_STREAM, 0);
  rfcntl(client, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(rconnect(client, plain(there), sizeof(there)), -1);
  EXPECT_EQ(errno, EINPROGRESS);
  EXPECT_EQ(poll_for(client, POLLOUT, 20000), POLLOUT);
  EXPECT_EQ(poll_for(listener, POLLIN, 20000), POLLIN);
  const int server = raccept(listener, nullptr, nullptr);
  EXPECT_GE(server, 0);
  rclose(client);
  rclose(server);
  rclose(listener);
}

// Python, Perl, memcached and redis create their sockets so.
TEST(Rsocket, TakesTheFlagsOfSocket) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    const int fd = rsocket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    EXPECT_EQ(rfcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(rclose(fd), 0);
  }
  const int listener = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const auto any = address("10.117.0.1");
  ASSERT_EQ(rbind(listener, plain(any), sizeof(any)), 0);
  ASSERT_EQ(rlisten(listener, 1), 0);
  EXPECT_EQ(raccept(listener, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(rclose(listener), 0);
}

TEST(Rsocket, WithoutAListenerIsRefused) {
  const int client = rsocket(AF_INET, SOCK_STREAM, 0);
  const auto at = address("10.117.0.1", 9);
  EXPECT_EQ(rconnect(client, plain(at), sizeof(at)), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_NE(poll_for(client, POLLOUT, 0) & POLLERR, 0);
  rclose(client);
}

TEST(Rsocket, MistakesAreRefused) {
  EXPECT_EQ(rsocket(AF_UNIX, SOCK_STREAM, 0), -1);
  EXPECT_EQ(errno, ENOTSUP);
  EXPECT_EQ(rrecv(12345, nullptr, 0, 0), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(rclose(12345), -1);
  const int socket = rsocket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(rsend(socket, "x", 1, 0), -1);
  EXPECT_EQ(errno, ENOTCONN);
  char byte;
  EXPECT_EQ(rrecv(socket, &byte, 1, 0), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(raccept(socket, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rshutdown(socket, SHUT_RDWR), -1);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_EQ(rclose(socket), 0);
}

TEST(Rsocket, AClosedListenerClosesUnacceptedConnections) {
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  const auto at = address("10.117.0.1");
  ASSERT_EQ(rbind(listener, plain(at), sizeof(at)), 0);
  ASSERT_EQ(rlisten(listener, 1), 0);
  sockaddr_in there{};
  socklen_t length = sizeof(there);
  rgetsockname(listener, reinterpret_cast<sockaddr*>(&there), &length);
  const int client = rsocket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(rconnect(client, plain(there), sizeof(there)), 0);
  ASSERT_EQ(poll_for(listener, POLLIN, 20000), POLLIN);
  rclose(listener);
  char byte = 0;
  EXPECT_EQ(rrecv(client, &byte, 1, 0), 0);
  rclose(client);
}

}  // namespace
