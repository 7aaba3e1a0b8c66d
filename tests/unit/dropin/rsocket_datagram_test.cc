// Datagram rsockets of this process with each other, over two devices.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rsocket.h>

#include <cstring>
#include <string>
#include <vector>

#include "socket_address.h"

namespace {

class RsocketDatagrams : public testing::Test {
 protected:
  void SetUp() override {
    server_ = rsocket(AF_INET, SOCK_DGRAM, 0);
    client_ = rsocket(AF_INET, SOCK_DGRAM, 0);
    ASSERT_GE(server_, 0) << std::strerror(errno);
    const auto at = address("10.117.0.1");
    ASSERT_EQ(rbind(server_, plain(at), sizeof(at)), 0) << std::strerror(errno);
    socklen_t length = sizeof(at_);
    ASSERT_EQ(rgetsockname(server_, reinterpret_cast<sockaddr*>(&at_), &length), 0);
    ASSERT_NE(at_.sin_port, 0);
  }
  void TearDown() override {
    EXPECT_EQ(rclose(client_), 0);
    EXPECT_EQ(rclose(server_), 0);
  }
  /// The next datagram and its sender.
  std::string receive(int socket, sockaddr_in& from, int flags = 0) {
    pollfd one{socket, POLLIN, 0};
    if (rpoll(&one, 1, 10000) != 1) return "(nothing came)";
    char buffer[2048];
    socklen_t length = sizeof(from);
    const ssize_t size = rrecvfrom(socket, buffer, sizeof(buffer), flags, reinterpret_cast<sockaddr*>(&from), &length);
    return size < 0 ? std::strerror(errno) : std::string(buffer, static_cast<std::size_t>(size));
  }

  int server_ = -1, client_ = -1;
  sockaddr_in at_{};
};

TEST_F(RsocketDatagrams, ThereAndBack) {
  for (int i = 0; i < 200; ++i) {
    const std::string text = "datagram " + std::to_string(i) + std::string(static_cast<std::size_t>(i * 4), '.');
    ASSERT_EQ(rsendto(client_, text.data(), text.size(), 0, plain(at_), sizeof(at_)), static_cast<ssize_t>(text.size()))
        << std::strerror(errno);
    sockaddr_in from{};
    ASSERT_EQ(receive(server_, from), text);
    EXPECT_EQ(from.sin_addr.s_addr, address("10.117.0.2").sin_addr.s_addr);
    ASSERT_EQ(rsendto(server_, "answer", 6, 0, plain(from), sizeof(from)), 6) << std::strerror(errno);
    ASSERT_EQ(receive(client_, from), "answer");
    EXPECT_EQ(from.sin_addr.s_addr, at_.sin_addr.s_addr);
    EXPECT_EQ(from.sin_port, at_.sin_port);
  }
}

TEST_F(RsocketDatagrams, AConnectedSocketNeedsNoAddress) {
  EXPECT_EQ(rsend(client_, "x", 1, 0), -1);
  EXPECT_EQ(errno, EDESTADDRREQ);
  sockaddr_in peer{};
  socklen_t length = sizeof(peer);
  EXPECT_EQ(rgetpeername(client_, reinterpret_cast<sockaddr*>(&peer), &length), -1);
  EXPECT_EQ(errno, ENOTCONN);
  ASSERT_EQ(rconnect(client_, plain(at_), sizeof(at_)), 0);
  ASSERT_EQ(rgetpeername(client_, reinterpret_cast<sockaddr*>(&peer), &length), 0);
  EXPECT_EQ(peer.sin_port, at_.sin_port);
  ASSERT_EQ(rsend(client_, "hello", 5, 0), 5);
  sockaddr_in from{};
  EXPECT_EQ(receive(server_, from, MSG_PEEK), "hello");
  EXPECT_EQ(receive(server_, from), "hello");
}

TEST_F(RsocketDatagrams, TooLongIsRefused) {
  const std::vector<char> much(3000);
  EXPECT_EQ(rsendto(client_, much.data(), much.size(), 0, plain(at_), sizeof(at_)), -1);
  EXPECT_EQ(errno, EMSGSIZE);
}

TEST_F(RsocketDatagrams, ALongOneIsCut) {
  ASSERT_EQ(rsendto(client_, "0123456789", 10, 0, plain(at_), sizeof(at_)), 10);
  char buffer[4];
  EXPECT_EQ(rrecv(server_, buffer, 4, 0), 4);
  EXPECT_EQ(rrecv(server_, buffer, 4, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EWOULDBLOCK);
}

TEST_F(RsocketDatagrams, WithoutAPeerIsRefused) {
  auto nobody = at_;
  nobody.sin_port = htons(9);
  EXPECT_EQ(rsendto(client_, "x", 1, 0, plain(nobody), sizeof(nobody)), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(RsocketDatagrams, MoreThanTheQueueHoldsArrivesWhereItIsRead) {
  ASSERT_EQ(rsendto(client_, "x", 1, 0, plain(at_), sizeof(at_)), 1);
  sockaddr_in from{};
  EXPECT_EQ(receive(server_, from), "x");
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(rsendto(client_, &i, sizeof(i), 0, plain(at_), sizeof(at_)), 4);
    const std::string got = receive(server_, from);
    ASSERT_EQ(got.size(), 4u);
    ASSERT_EQ(std::memcmp(got.data(), &i, 4), 0);
  }
}

TEST_F(RsocketDatagrams, CallsOfStreamsAreRefused) {
  EXPECT_EQ(rlisten(server_, 1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(raccept(server_, nullptr, nullptr), -1);
  EXPECT_EQ(riomap(server_, nullptr, 1, PROT_WRITE, 0, 0), -1);
  int value = 32;
  EXPECT_EQ(rsetsockopt(client_, SOL_RDMA, RDMA_RQSIZE, &value, sizeof(value)), 0);
  socklen_t length = sizeof(value);
  value = 0;
  EXPECT_EQ(rgetsockopt(client_, SOL_RDMA, RDMA_RQSIZE, &value, &length), 0);
  EXPECT_EQ(value, 32);
}

}  // namespace
