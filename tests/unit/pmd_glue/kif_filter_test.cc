// The filter of the packet socket, run by the kernel on a socket pair. Tags are no part of a frame there, so only the
// untagged filter can be tried.
#include "pmd_glue/kif/filter.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace uroce::glue::kif {
namespace {

using Bytes = std::vector<std::byte>;

class Filter : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    auto program = make_filter(0);
    const sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
    ASSERT_EQ(setsockopt(ends_[1], SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached), 0);
  }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
  }
  bool passes(const Bytes& frame) {
    std::array<char, 2048> room{};
    (void)!send(ends_[0], frame.data(), frame.size(), 0);
    return recv(ends_[1], room.data(), room.size(), 0) == static_cast<ssize_t>(frame.size());
  }

  std::array<int, 2> ends_{-1, -1};
};

Bytes ethernet(uint16_t type) {
  Bytes out(100);
  store_be16(out.data() + 12, type);
  return out;
}

Bytes ipv4(uint8_t protocol, uint16_t port, uint16_t fragment = 0x4000, uint8_t header_words = 5) {
  Bytes out = ethernet(0x0800);
  store8(out.data() + 14, static_cast<uint8_t>(0x40 | header_words));
  store_be16(out.data() + 20, fragment);
  store8(out.data() + 23, protocol);
  store_be16(out.data() + 14 + header_words * 4 + 2, port);
  return out;
}

Bytes ipv6(uint8_t next_header, uint16_t port) {
  Bytes out = ethernet(0x86dd);
  store8(out.data() + 14, 0x60);
  store8(out.data() + 20, next_header);
  store_be16(out.data() + 14 + 40 + 2, port);
  return out;
}

TEST_F(Filter, LetsWhatThePortSpeaksPass) {
  EXPECT_TRUE(passes(ethernet(0x0806)));
  EXPECT_TRUE(passes(ipv4(17, 4791)));
  EXPECT_TRUE(passes(ipv4(17, 4791, 0x4000, 8)));
  EXPECT_TRUE(passes(ipv4(1, 0)));
  EXPECT_TRUE(passes(ipv4(2, 0)));
  EXPECT_TRUE(passes(ipv6(17, 4791)));
  EXPECT_TRUE(passes(ipv6(58, 0)));
  EXPECT_TRUE(passes(ipv6(0, 0)));
}

TEST_F(Filter, KeepsTheRestAway) {
  EXPECT_FALSE(passes(ipv4(17, 4790)));
  EXPECT_FALSE(passes(ipv4(6, 4791)));
  EXPECT_FALSE(passes(ipv4(17, 4791, 0x2000)));
  EXPECT_FALSE(passes(ipv4(17, 4791, 0x0001)));
  EXPECT_FALSE(passes(ipv6(17, 53)));
  EXPECT_FALSE(passes(ipv6(6, 4791)));
  EXPECT_FALSE(passes(ethernet(0x8100)));
  EXPECT_FALSE(passes(ethernet(0x88cc)));
  EXPECT_FALSE(passes(Bytes(13)));
  Bytes cut = ipv4(17, 4791);
  cut.resize(36);
  EXPECT_FALSE(passes(cut));
}

// The kernel runs it on a loopback interface's frames, so that the offsets are those of the network layer.
int engine_of(uint32_t engines, uint32_t qpn, bool ipv6) {
  const int receiver = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const int sender = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = ipv6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  socklen_t length = ipv6 ? sizeof six : sizeof four;
  EXPECT_EQ(bind(receiver, address, length), 0);
  EXPECT_EQ(getsockname(receiver, address, &length), 0);
  // A filter's result is how many bytes arrive, the UDP header's 8 among them.
  auto program = make_spread(engines);
  program[program.size() - 2] = {BPF_ALU | BPF_ADD | BPF_K, 0, 0, 8 + 1};
  program.back() = {BPF_RET | BPF_A, 0, 0, 0};
  const sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
  EXPECT_EQ(setsockopt(receiver, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached), 0);
  Bytes datagram(100);
  store_be24(datagram.data() + 5, qpn);
  EXPECT_EQ(sendto(sender, datagram.data(), datagram.size(), 0, address, length), 100);
  std::array<char, 128> room{};
  const ssize_t got = recv(receiver, room.data(), room.size(), 0);
  close(receiver);
  close(sender);
  return static_cast<int>(got) - 1;
}

TEST(Spread, NamesTheEngineOfTheQueuePair) {
  for (const bool ipv6 : {false, true}) {
    for (const uint32_t engines : {2u, 3u, 16u}) {
      const uint32_t indices = std::bit_ceil(engines);
      for (const uint32_t qpn : {0x000001u, 0x123456u, 0xabcdefu, 0xfffff0u}) {
        EXPECT_EQ(engine_of(engines, qpn, ipv6), static_cast<int>(qpn % indices))
            << engines << ' ' << qpn << ' ' << ipv6;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::glue::kif
