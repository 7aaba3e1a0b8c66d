// The UDP source port that brings a peer's frames to a queue.
#include "wire/receive_spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rss_vectors.h"
#include "wire/rx_hash.h"

namespace uroce::wire {
namespace {

const Gid kPeer4 = ip4(10, 0, 0, 1), kOwn4 = ip4(10, 0, 0, 2);
const Gid kPeer6 = ip6({0xfd00, 0, 0, 0, 0, 0, 0, 1}), kOwn6 = ip6({0xfd00, 0, 0, 0, 0, 0, 0, 2});

// Queues 0..count - 1 in turn.
std::vector<uint16_t> table(std::size_t entries, uint16_t count) {
  std::vector<uint16_t> queues(entries);
  for (std::size_t i = 0; i < entries; ++i) queues[i] = static_cast<uint16_t>(i % count);
  return queues;
}
ReceiveSpread spread(std::size_t entries, uint16_t count, bool ipv4 = true, bool ipv6 = true) {
  return ReceiveSpread::make(kRssKey, table(entries, count), ipv4, ipv6).value();
}

// The hash as `rx_hash` has it, which the published vectors prove.
uint32_t hash_of(const Gid& source, const Gid& destination, uint16_t port) {
  std::vector<std::byte> input;
  for (const Gid* gid : {&source, &destination}) {
    const auto bytes = std::as_bytes(std::span(gid->bytes)).subspan(gid->is_ipv4() ? 12 : 0);
    input.insert(input.end(), bytes.begin(), bytes.end());
  }
  for (const uint16_t number : {port, uint16_t{4791}}) {
    input.push_back(static_cast<std::byte>(number >> 8));
    input.push_back(static_cast<std::byte>(number));
  }
  return toeplitz(kRssKey, input);
}

TEST(ReceiveSpread, TheLowBitsOfTheHashChooseTheQueue) {
  const ReceiveSpread cards = spread(128, 128);
  for (const uint16_t port : {0xc000, 0xcafe, 0xffff, 0x1234}) {
    EXPECT_EQ(cards.queue_of(kPeer4, kOwn4, port), hash_of(kPeer4, kOwn4, port) % 128);
    EXPECT_EQ(cards.queue_of(kPeer6, kOwn6, port), hash_of(kPeer6, kOwn6, port) % 128);
  }
}

TEST(ReceiveSpread, FindsAPortForEachQueue) {
  for (const uint16_t queues : {uint16_t{2}, uint16_t{16}, uint16_t{64}}) {
    const ReceiveSpread cards = spread(512, queues);
    for (uint16_t queue = 0; queue < queues; ++queue) {
      for (const uint16_t wish : {0, 0xc001, 0xffff}) {
        const auto port4 = cards.source_port(queue, kPeer4, kOwn4, wish);
        const auto port6 = cards.source_port(queue, kPeer6, kOwn6, wish);
        ASSERT_TRUE(port4 && port6);
        EXPECT_GE(*port4, 0xc000);
        EXPECT_GE(*port6, 0xc000);
        EXPECT_EQ(cards.queue_of(kPeer4, kOwn4, *port4), queue);
        EXPECT_EQ(cards.queue_of(kPeer6, kOwn6, *port6), queue);
      }
    }
  }
}

TEST(ReceiveSpread, TakesTheWishWhereItIsRight) {
  const ReceiveSpread cards = spread(128, 4);
  const auto queue = cards.queue_of(kPeer4, kOwn4, 0xd00d);
  EXPECT_EQ(cards.source_port(*queue, kPeer4, kOwn4, 0xd00d), 0xd00d);
}

TEST(ReceiveSpread, FlowsStayApart) {
  const ReceiveSpread cards = spread(128, 4);
  std::set<uint16_t> ports;
  for (uint16_t wish = 0xc000; wish < 0xc000 + 1024; ++wish) ports.insert(*cards.source_port(1, kPeer4, kOwn4, wish));
  EXPECT_GT(ports.size(), 128u) << "1024 wishes have some 256 right ports";
}

TEST(ReceiveSpread, NoPortLeadsToAQueueOutsideTheTable) {
  const ReceiveSpread cards = spread(128, 4);
  EXPECT_FALSE(cards.source_port(4, kPeer4, kOwn4, 0xc000));
}

TEST(ReceiveSpread, SaysNothingOfPortsThatAreNotHashed) {
  const ReceiveSpread only4 = spread(128, 4, true, false);
  EXPECT_TRUE(only4.source_port(1, kPeer4, kOwn4, 0xc000));
  EXPECT_FALSE(only4.source_port(1, kPeer6, kOwn6, 0xc000));
  EXPECT_FALSE(only4.queue_of(kPeer6, kOwn6, 0xc000));
  const ReceiveSpread only6 = spread(128, 4, false, true);
  EXPECT_FALSE(only6.source_port(1, kPeer4, kOwn4, 0xc000));
  EXPECT_TRUE(only6.source_port(1, kPeer6, kOwn6, 0xc000));
  EXPECT_FALSE(only6.source_port(1, kPeer4, kOwn6, 0xc000)) << "no frame has both";
}

TEST(ReceiveSpread, RefusesWhatNoCardHas) {
  EXPECT_FALSE(ReceiveSpread::make(kRssKey, {}, true, true));
  EXPECT_FALSE(ReceiveSpread::make(kRssKey, table(100, 4), true, true));
  EXPECT_FALSE(ReceiveSpread::make(kRssKey, table(2 * ReceiveSpread::kMaxTable, 4), true, true));
}

}  // namespace
}  // namespace uroce::wire
