// The choice of UDP source ports, on the loopback interface of a network namespace of the test's own.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <vector>

#include "namespace.h"
#include "pmd_glue/udp/source_ports.h"
#include "wire/headers.h"
#include "wire/packet.h"

namespace uroce::glue::udp {
namespace {

/// The ports from which frames leave, with the engine's ports that lead there.
std::map<uint16_t, unsigned> all_ways(const SourcePorts& sources) {
  std::map<uint16_t, unsigned> out;
  for (unsigned port = 0xc000; port <= 0xffff; ++port) ++out[sources.way_of(static_cast<uint16_t>(port)).port];
  return out;
}

void expect_that_a_frame_keeps_its_way(const SourcePorts& sources) {
  for (const auto& [port, _] : all_ways(sources)) EXPECT_EQ(sources.way_of(port).port, port);
}

/// Binds UDP ports of all interfaces, as another program does.
class OtherProgram {
 public:
  explicit OtherProgram(const std::set<uint16_t>& ports) {
    for (const uint16_t port : ports) {
      fds_.push_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_port = htons(port);
      EXPECT_EQ(bind(fds_.back(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0) << port;
    }
  }
  ~OtherProgram() {
    for (const int fd : fds_) close(fd);
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;

 private:
  std::vector<int> fds_;
};

/// The first `count` ports that may be taken, of each flow.
std::set<uint16_t> first_ports(unsigned count) {
  std::array<unsigned, kSourcePorts> found{};
  std::set<uint16_t> out;
  for (unsigned port = kFirstSourcePort; port <= 0xffff; ++port) {
    if (found[flow_of(static_cast<uint16_t>(port))]++ < count) out.insert(static_cast<uint16_t>(port));
  }
  return out;
}

TEST(UdpSourcePorts, PairsOfQueuePairsSpread) {
  for (const uint32_t first : {2u, 17u, 0x100u, 0x12345u, 0xfffff0u}) {
    std::array<unsigned, kSourcePorts> pairs{};
    for (uint32_t i = 0; i < 256; ++i) ++pairs[flow_of(wire::udp_source_port(0, first + i, first + 3 + i))];
    for (const unsigned count : pairs) EXPECT_GT(count, 8u) << first;  // 32 each if all were alike
  }
}

TEST(UdpSourcePorts, EachFlowHasAPort) {
  const bool made = in_a_namespace([] {
    const auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const SourcePorts sources("lo", *socket);
    const auto ways = all_ways(sources);
    EXPECT_EQ(ways.size(), kSourcePorts);
    for (const auto& [port, count] : ways) {
      EXPECT_GE(port, kFirstSourcePort);
      EXPECT_GT(count, 1900u) << "of 16384";
    }
    expect_that_a_frame_keeps_its_way(sources);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST(UdpSourcePorts, OthersAreTakenWhereAProgramHasThem) {
  const bool made = in_a_namespace([] {
    const auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const auto taken = first_ports(3);
    const OtherProgram other(taken);
    const SourcePorts sources("lo", *socket);
    const auto ways = all_ways(sources);
    EXPECT_EQ(ways.size(), kSourcePorts);
    for (const auto& [port, _] : ways) EXPECT_FALSE(taken.contains(port)) << port;
    expect_that_a_frame_keeps_its_way(sources);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST(UdpSourcePorts, FlowsShareTheFewThatAreFree) {
  const bool made = in_a_namespace([] {
    const auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    auto taken = first_ports(8);
    std::erase_if(taken, [](uint16_t port) { return flow_of(port) == 2 || flow_of(port) == 5; });
    const OtherProgram other(taken);
    const SourcePorts sources("lo", *socket);
    EXPECT_EQ(all_ways(sources).size(), 2u);
    EXPECT_NE(sources.description().find("2 source ports"), std::string::npos) << sources.description();
    expect_that_a_frame_keeps_its_way(sources);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST(UdpSourcePorts, RocesOwnIsTheLastResort) {
  const bool made = in_a_namespace([] {
    const auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const OtherProgram other(first_ports(8));
    const SourcePorts sources("lo", *socket);
    const auto ways = all_ways(sources);
    ASSERT_EQ(ways.size(), 1u);
    EXPECT_EQ(ways.begin()->first, wire::kUdpPort);
    EXPECT_EQ(sources.way_of(0xc001).fd, socket->fd());
    EXPECT_NE(sources.description().find("source port 4791 alone"), std::string::npos) << sources.description();
    expect_that_a_frame_keeps_its_way(sources);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST(UdpSourcePorts, NothingArrivesThere) {
  const bool made = in_a_namespace([] {
    const auto socket = Socket::open_to_send("lo", kFirstSourcePort);
    ASSERT_TRUE(socket) << socket.error().text;
    const int other = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kFirstSourcePort);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(sendto(other, "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), 1);
    char byte = 0;
    EXPECT_EQ(recv(socket->fd(), &byte, 1, MSG_DONTWAIT), -1);
    EXPECT_EQ(errno, EAGAIN);
    close(other);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

}  // namespace
}  // namespace uroce::glue::udp
