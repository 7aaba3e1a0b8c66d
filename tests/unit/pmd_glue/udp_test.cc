// The sender and the receiver of a UDP port, on the loopback interface of a network namespace of the test's own.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "namespace.h"
#include "pmd_glue/udp/receiver.h"
#include "pmd_glue/udp/sender.h"
#include "pmd_glue/udp/socket.h"
#include "pmd_glue/udp/source_ports.h"
#include "wire/headers.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::glue::udp {
namespace {

using Bytes = std::vector<std::byte>;
constexpr uint16_t kRoom = 4400;
constexpr EthAddr kMac{{2, 3, 4, 5, 6, 7}};

Gid loopback(bool ipv6) {
  if (!ipv6) return Gid::from_ipv4(INADDR_LOOPBACK);
  Gid gid{};
  gid.bytes[15] = decltype(gid.bytes)::value_type{1};
  return gid;
}

/// A RoCE packet from the loopback address to itself, as an engine builds it.
Bytes roce_frame(bool ipv6, uint16_t id, std::size_t payload_bytes, uint8_t traffic_class = 0, uint16_t port = 0xc123) {
  Random random(id + payload_bytes);
  const auto route = wire::make_template({.src_mac = kMac,
                                          .dst_mac = kMac,
                                          .sgid = loopback(ipv6),
                                          .dgid = loopback(ipv6),
                                          .traffic_class = traffic_class,
                                          .hop_limit = 9});
  const std::size_t l4 = wire::kBthBytes + payload_bytes + wire::kIcrcBytes;
  Bytes frame(route.length + l4);
  for (std::byte& byte : frame) byte = static_cast<std::byte>(random.next());
  wire::write_l2_to_l4(frame.data(), route, port, l4, id);
  const std::byte* const l3 = frame.data() + route.l3_offset;
  std::byte* const icrc = frame.data() + frame.size() - wire::kIcrcBytes;
  store_le32(icrc, wire::icrc_of({l3, icrc}, route.ip_version));
  return frame;
}

/// From the BTH to the ICRC, without it.
Bytes content_of(const Bytes& frame, bool ipv6) {
  return {frame.begin() + (ipv6 ? 62 : 42), frame.end() - wire::kIcrcBytes};
}

bool icrc_fits(const Bytes& frame, bool ipv6) {
  const std::byte* const icrc = frame.data() + frame.size() - wire::kIcrcBytes;
  return load_le32(icrc) == wire::icrc_of({frame.data() + 14, icrc}, ipv6 ? 6 : 4);
}

class UdpQueue : public testing::Test {
 protected:
  void SetUp() override {
    pool_ = rte_pktmbuf_pool_create("udp-test", 1023, 0, 0, RTE_PKTMBUF_HEADROOM + kRoom, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u) << "a buffer was lost";
    rte_mempool_free(pool_);
  }

  rte_mbuf* mbuf_of(const Bytes& frame, std::size_t first_segment) {
    rte_mbuf* head = rte_pktmbuf_alloc(pool_);
    first_segment = std::min(first_segment, frame.size());
    std::memcpy(rte_pktmbuf_append(head, static_cast<uint16_t>(first_segment)), frame.data(), first_segment);
    if (first_segment == frame.size()) return head;
    rte_mbuf* tail = rte_pktmbuf_alloc(pool_);
    const auto rest = static_cast<uint16_t>(frame.size() - first_segment);
    std::memcpy(rte_pktmbuf_append(tail, rest), frame.data() + first_segment, rest);
    rte_pktmbuf_chain(head, tail);
    return head;
  }

  void send(const SourcePorts& sources, Sender& sender, const std::vector<Bytes>& frames,
            std::size_t first_segment = SIZE_MAX) {
    std::vector<rte_mbuf*> mbufs;
    for (const Bytes& frame : frames) mbufs.push_back(mbuf_of(frame, first_segment));
    for (std::size_t sent = 0; sent < mbufs.size();) sent += sender.send(sources, std::span(mbufs).subspan(sent));
  }

  /// As many frames as come, or `count`.
  std::vector<Bytes> receive(const Socket& socket, Receiver& receiver, std::size_t count) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::vector<Bytes> out;
    std::array<rte_mbuf*, 7> burst{};
    while (out.size() < count && std::chrono::steady_clock::now() < limit) {
      const uint16_t some = receiver.receive(socket.fd(), burst);
      for (rte_mbuf* const mbuf : std::span(burst).first(some)) {
        const auto* const start = rte_pktmbuf_mtod(mbuf, const std::byte*);
        out.emplace_back(start, start + mbuf->data_len);
        rte_pktmbuf_free(mbuf);
      }
    }
    return out;
  }

  rte_mempool* pool_ = nullptr;
};

TEST_F(UdpQueue, FramesArriveWithAnIcrcThatFits) {
  const bool made = in_a_namespace([&] {
    auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const SourcePorts sources("lo", *socket);
    Sender sender(socket->has_ipv6());
    for (const bool ipv6 : {false, true}) {
      Receiver receiver(pool_, kMac);
      std::vector<Bytes> frames;
      // Runs of one length whose last one is shorter, another length, another traffic class, and some alone.
      for (uint16_t i = 0; i < 90; ++i)
        frames.push_back(roce_frame(ipv6, static_cast<uint16_t>(7000 + i), i % 30 == 29 ? 100 : 1024));
      for (uint16_t i = 0; i < 10; ++i) frames.push_back(roce_frame(ipv6, i, 4096, i < 5 ? 0 : 0x2b));
      frames.push_back(roce_frame(ipv6, 65535, 0));
      send(sources, sender, frames, ipv6 ? 70 : SIZE_MAX);
      const auto got = receive(*socket, receiver, frames.size());
      ASSERT_EQ(got.size(), frames.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(content_of(got[i], ipv6), content_of(frames[i], ipv6)) << i;
        EXPECT_TRUE(icrc_fits(got[i], ipv6)) << i;
        const std::byte* const ip = got[i].data() + 14;
        EXPECT_EQ(std::memcmp(ip + (ipv6 ? 8 : 12), frames[i].data() + 14 + (ipv6 ? 8 : 12), ipv6 ? 32 : 8), 0)
            << "addresses";
        EXPECT_EQ(ipv6 ? load_be16(ip) >> 4 & 0xff : load8(ip + 1), i >= 95 && i < 100 ? 0x2bu : 0u) << i;
        EXPECT_EQ(load8(ip + (ipv6 ? 7 : 8)), 9) << "hop limit";
        EXPECT_EQ(load_be16(ip + (ipv6 ? 40 : 20)), sources.way_of(0xc123).port);
      }
      EXPECT_GT(receiver.counters().super_frames.get(), 0u);
      EXPECT_EQ(receiver.counters().unknown_ids.get(), 0u);
    }
    EXPECT_GT(sender.counters().super_frames.get(), 0u);
    EXPECT_EQ(sender.counters().dropped.get(), 0u);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST_F(UdpQueue, TheIcrcTellsWhatIdAPeerHasChosen) {
  const bool made = in_a_namespace([&] {
    auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    // A peer whose packets have other ids: its ICRC is that of its own header.
    const int peer = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(wire::kUdpPort);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in from = to;
    from.sin_port = htons(0xc123);
    ASSERT_EQ(bind(peer, reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
    const auto send_from_peer = [&](const Bytes& frame) {
      EXPECT_GT(
          sendto(peer, frame.data() + 42, frame.size() - 42, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    };
    Receiver receiver(pool_, kMac);
    for (const uint16_t id : {0, 1, 255, 256, 40000, 65535}) {
      send_from_peer(roce_frame(false, id, 512));
      const auto got = receive(*socket, receiver, 1);
      ASSERT_EQ(got.size(), 1u);
      EXPECT_EQ(load_be16(got[0].data() + 18), id);
      EXPECT_TRUE(icrc_fits(got[0], false)) << id;
    }
    auto fragments = roce_frame(false, 77, 512);  // may be fragmented: the bit is covered, too
    store_be16(&fragments[20], 0);
    std::byte* const icrc = fragments.data() + fragments.size() - wire::kIcrcBytes;
    store_le32(icrc, wire::icrc_of({fragments.data() + 14, icrc}, 4));
    send_from_peer(fragments);
    const auto got = receive(*socket, receiver, 1);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_TRUE(icrc_fits(got[0], false));
    EXPECT_EQ(load_be16(got[0].data() + 18), 77);
    EXPECT_EQ(receiver.counters().unknown_ids.get(), 0u);
    auto damaged = roce_frame(false, 5, 512);
    damaged[200] ^= std::byte{0x10};
    send_from_peer(damaged);
    const auto bad = receive(*socket, receiver, 1);
    ASSERT_EQ(bad.size(), 1u) << "the engine counts it";
    EXPECT_FALSE(icrc_fits(bad[0], false));
    EXPECT_EQ(receiver.counters().unknown_ids.get(), 1u);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{15}, std::size_t{5000}}) {
      const Bytes other(bytes);
      EXPECT_EQ(sendto(peer, other.data(), bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to),
                static_cast<ssize_t>(bytes));
    }
    send_from_peer(roce_frame(false, 6, 64));
    EXPECT_EQ(receive(*socket, receiver, 1).size(), 1u) << "those that are no RoCE are skipped";
    EXPECT_EQ(receiver.counters().bad_lengths.get(), 3u);
    close(peer);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST_F(UdpQueue, EachFlowLeavesFromAPortOfItsOwn) {
  const bool made = in_a_namespace([&] {
    auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const SourcePorts sources("lo", *socket);
    Sender sender(socket->has_ipv6());
    Receiver receiver(pool_, kMac);
    std::vector<Bytes> frames;
    std::map<uint16_t, uint16_t> port_of;  // by the id, which the payload follows
    for (uint16_t i = 0; i < 120; ++i) {
      const auto port = static_cast<uint16_t>(0xc000 + i / 4 * 37);  // runs of four
      frames.push_back(roce_frame(false, i, 1024, 0, port));
      port_of[i] = sources.way_of(port).port;
    }
    send(sources, sender, frames);
    const auto got = receive(*socket, receiver, frames.size());
    ASSERT_EQ(got.size(), frames.size());
    std::set<uint16_t> seen;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(content_of(got[i], false), content_of(frames[i], false)) << i;
      EXPECT_TRUE(icrc_fits(got[i], false)) << i;
      const uint16_t port = load_be16(got[i].data() + 34);
      EXPECT_EQ(port, port_of[static_cast<uint16_t>(i)]) << i;
      seen.insert(port);
    }
    EXPECT_EQ(seen.size(), kSourcePorts);
    EXPECT_GT(sender.counters().super_frames.get(), 0u);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST_F(UdpQueue, OtherFramesAreCountedAndFreed) {
  const bool made = in_a_namespace([&] {
    auto socket = Socket::open("lo");
    ASSERT_TRUE(socket) << socket.error().text;
    const SourcePorts sources("lo", *socket);
    Sender sender(socket->has_ipv6());
    Receiver receiver(pool_, kMac);
    Bytes arp(60);
    store_be16(&arp[12], 0x0806);
    auto elsewhere = roce_frame(false, 1, 64);
    store_be16(&elsewhere[36], 53);
    send(sources, sender,
         {arp, roce_frame(false, 2, 64), elsewhere, arp, roce_frame(false, 3, 64), roce_frame(true, 4, 64)});
    EXPECT_EQ(sender.foreign().get(), 3u);
    EXPECT_EQ(receive(*socket, receiver, 3).size(), 3u);
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

TEST_F(UdpQueue, AnotherHolderOfThePortIsNamed) {
  const bool made = in_a_namespace([&] {
    auto first = Socket::open("lo");
    ASSERT_TRUE(first) << first.error().text;
    const auto second = Socket::open("lo");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_NE(second.error().text.find("UDP port 4791 is in use"), std::string::npos) << second.error().text;
    const auto none = Socket::open("nothing0");
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().text.find("nothing0"), std::string::npos) << none.error().text;
  });
  if (!made) GTEST_SKIP() << "this machine allows no network namespace here";
}

}  // namespace
}  // namespace uroce::glue::udp
