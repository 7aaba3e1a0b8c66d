// The channel over TCP: order, large messages, peers that vanish or talk nonsense, waits with an end.
#include "perf/peer_channel.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

namespace uroce::perf {
namespace {

constexpr double kTimeout_s = 60;
constexpr int kTries = 60'000;  ///< a millisecond apart

bool keep_waiting() {
  ::usleep(1000);
  return true;
}

Message error(std::string text) {
  Message m;
  m.type = MessageType::error;
  m.text = std::move(text);
  return m;
}

/// Receives one message, or fails after a minute.
std::optional<Message> next(PeerChannel& channel, PeerChannel* other = nullptr) {
  for (int i = 0; i < kTries; ++i) {
    if (other != nullptr) {
      EXPECT_TRUE(other->receive().has_value());  // lets it go on sending
    }
    auto message = channel.receive();
    EXPECT_TRUE(message.has_value()) << (message ? "" : message.error().text);
    if (!message) return std::nullopt;
    if (*message) return *message;
    ::usleep(1000);
  }
  return std::nullopt;
}

Error failure(PeerChannel& channel) {
  for (int i = 0; i < kTries; ++i) {
    auto message = channel.receive();
    if (!message) return message.error();
    ::usleep(1000);
  }
  return {};
}

struct TcpPair {
  std::unique_ptr<PeerChannel> server, client;

  static TcpPair make() {
    auto listener = Listener::open(0);
    EXPECT_TRUE(listener.has_value()) << listener.error().text;
    auto client = connect_channel("localhost", listener->port(), kTimeout_s, keep_waiting);
    EXPECT_TRUE(client.has_value()) << client.error().text;
    auto server = listener->accept(kTimeout_s, keep_waiting);
    EXPECT_TRUE(server.has_value()) << server.error().text;
    return {std::move(*server), std::move(*client)};
  }
};

/// A client of raw bytes, against a PeerChannel.
struct RawPair {
  std::unique_ptr<PeerChannel> server;
  int fd = -1;

  RawPair() {
    auto listener = Listener::open(0);
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(listener->port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    auto accepted = listener->accept(kTimeout_s, keep_waiting);
    EXPECT_TRUE(accepted.has_value());
    server = std::move(*accepted);
  }
  RawPair(const RawPair&) = delete;
  ~RawPair() {
    if (fd >= 0) ::close(fd);
  }
};

TEST(LocalChannel, KeepsOrderBothWays) {
  auto [a, b] = local_channels();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(a->send(error(std::to_string(i))).has_value());
  EXPECT_TRUE(b->send(error("back")).has_value());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(*b)->text, std::to_string(i));
  EXPECT_EQ(next(*a)->text, "back");
  EXPECT_FALSE(*a->receive());
}

TEST(TcpChannel, KeepsOrderBothWays) {
  auto [server, client] = TcpPair::make();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(client->send(error(std::to_string(i))).has_value());
  EXPECT_TRUE(server->send(error("back")).has_value());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(next(*server)->text, std::to_string(i));
  EXPECT_EQ(next(*client)->text, "back");
}

TEST(TcpChannel, CarriesTheAddressesOfManyQps) {
  auto [server, client] = TcpPair::make();
  Message m;
  m.type = MessageType::hello;
  m.hello.port_mtu = 4096;
  for (uint32_t i = 0; i < 16384; ++i) m.hello.qps.push_back({i, 0xffffff - i});
  EXPECT_TRUE(client->send(m).has_value());
  const auto got = next(*server, client.get());
  ASSERT_TRUE(got);
  ASSERT_EQ(got->hello.qps.size(), 16384u);
  EXPECT_EQ(got->hello.qps.back().psn, 0xffffff - 16383u);
}

TEST(TcpChannel, LastWordsArriveBeforeTheEnd) {
  auto [server, client] = TcpPair::make();
  Message beat;
  EXPECT_TRUE(server->send(beat).has_value());  // stays unread at the client
  EXPECT_TRUE(client->send(error("last words")).has_value());
  client->flush();
  client.reset();
  EXPECT_EQ(next(*server)->text, "last words");
  EXPECT_EQ(failure(*server).code, ECONNRESET);
}

TEST(TcpChannel, StrangersAreRefused) {
  RawPair pair;
  ASSERT_EQ(::send(pair.fd, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
  EXPECT_EQ(failure(*pair.server).code, EPROTO);
}

TEST(TcpChannel, ByteByByteIsAMessageToo) {
  RawPair pair;
  for (const char byte : encode(error("slow"))) {
    EXPECT_FALSE(*pair.server->receive());
    ASSERT_EQ(::send(pair.fd, &byte, 1, 0), 1);
  }
  EXPECT_EQ(next(*pair.server)->text, "slow");
}

TEST(TcpChannel, HalfAMessageAndDeathIsAnError) {
  RawPair pair;
  const std::string bytes = encode(error("cut"));
  ASSERT_EQ(::send(pair.fd, bytes.data(), bytes.size() / 2, 0), static_cast<ssize_t>(bytes.size() / 2));
  ::close(pair.fd);
  pair.fd = -1;
  EXPECT_EQ(failure(*pair.server).code, ECONNRESET);
}

TEST(Waits, HaveAnEnd) {
  auto listener = Listener::open(0);
  ASSERT_TRUE(listener.has_value());
  const auto none = listener->accept(0.05, keep_waiting);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ETIMEDOUT);
  EXPECT_NE(none.error().text.find(std::to_string(listener->port())), std::string::npos);
  const auto stopped = listener->accept(0, [] { return false; });
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, EINTR);
}

TEST(Waits, NobodyThereNamesHostAndPort) {
  uint16_t port = 0;
  {
    auto listener = Listener::open(0);
    port = listener->port();
  }
  const auto none = connect_channel("127.0.0.1", port, 0.05, keep_waiting);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ETIMEDOUT);
  EXPECT_NE(none.error().text.find("127.0.0.1"), std::string::npos);
  EXPECT_NE(none.error().text.find(std::to_string(port)), std::string::npos);
}

TEST(Waits, PortInUseIsNamed) {
  auto listener = Listener::open(0);
  ASSERT_TRUE(listener.has_value());
  const auto second = Listener::open(listener->port());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().text.find(std::to_string(listener->port())), std::string::npos);
}

}  // namespace
}  // namespace uroce::perf
