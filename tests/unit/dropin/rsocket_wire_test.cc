// The messages between two rsockets, against bytes written by hand from librdmacm/docs/rsocket.
#include "dropin/rsocket/wire.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace uroce::dropin::rsocket::wire {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

const auto kSample = bytes({
    1, 2, 1,    0x80, 0, 0, 0, 0x81,                          // version, flags, 384 credits, 256 mappings
    0, 0, 0x7f, 1,    2, 3, 4, 5,    6, 7, 8, 9, 0, 0, 0, 2,  // table of two targets
    0, 0, 0x7f, 1,    2, 3, 0, 0,    1, 1, 1, 1, 0, 1, 0, 0,  // 64 KiB
});

TEST(RsocketGreeting, HasTheBytesOfRdmaCore) {
  Greeting greeting;
  greeting.maps = true;
  greeting.credits = 384;
  greeting.mappings = 256;
  greeting.targets = {0x7f0102030405, 0x06070809, 2};
  greeting.buffer = {0x7f0102030000, 0x01010101, 65536};
  const auto encoded = encode(greeting);
  EXPECT_EQ(std::vector(encoded.begin(), encoded.end()), kSample);
}

TEST(RsocketGreeting, IsReadBack) {
  const auto greeting = decode(kSample);
  ASSERT_TRUE(greeting);
  EXPECT_FALSE(greeting->big_endian);
  EXPECT_TRUE(greeting->maps);
  EXPECT_EQ(greeting->credits, 384);
  EXPECT_EQ(greeting->mappings, 256u);
  EXPECT_EQ(greeting->targets.address, 0x7f0102030405u);
  EXPECT_EQ(greeting->targets.key, 0x06070809u);
  EXPECT_EQ(greeting->targets.length, 2u);
  EXPECT_EQ(greeting->buffer.length, 65536u);
}

TEST(RsocketGreeting, OtherVersionsAndLengthsAreRefused) {
  auto other = kSample;
  other[0] = std::byte{2};
  EXPECT_FALSE(decode(other));
  for (std::size_t size = 0; size < kSample.size(); ++size) {
    EXPECT_FALSE(decode(std::span(kSample).first(size))) << size;
  }
  auto longer = kSample;  // private data is padded with zeros
  longer.resize(196);
  EXPECT_TRUE(decode(longer));
}

TEST(RsocketGreeting, WithoutATableOfMappingsThereAreNone) {
  auto plain = kSample;
  plain[1] = std::byte{0};
  EXPECT_EQ(decode(plain)->mappings, 0u);
}

TEST(RsocketGreeting, AnyBytesAreReadOrRefused) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> noise(random() % 64);
    for (std::byte& each : noise) each = static_cast<std::byte>(random());
    const auto greeting = decode(noise);
    EXPECT_LE(greeting ? greeting->mappings : 0, 127u * 256u);
  }
}

TEST(RsocketMappings, AreCountedInAByte) {
  EXPECT_EQ(mapping_entries(0), 0u);
  EXPECT_EQ(mapping_entries(1), 1u);
  EXPECT_EQ(mapping_entries(128), 128u);
  EXPECT_EQ(mapping_entries(256), 256u);
  EXPECT_EQ(mapping_entries(1000), 768u);
  EXPECT_EQ(mapping_entries(1 << 30), 127u * 256u);
}

TEST(RsocketMessage, HasItsKindAboveItsValue) {
  EXPECT_EQ(message(Op::data, 1000), 1000u);
  EXPECT_EQ(message(Op::targets, 384), 0x80000180u);
  EXPECT_EQ(message(Op::mapping, 3), 0xc0000003u);
  EXPECT_EQ(message(Control::disconnect), 0xe0000000u);
  EXPECT_EQ(message(Control::shutdown), 0xe0000002u);
  EXPECT_EQ(op_of(0xe0000002u), Op::control);
  EXPECT_EQ(value_of(0x80000180u), 384u);
}

TEST(RsocketDatagram, SendersHaveTheBytesOfRdmaCore) {
  std::vector<std::byte> place(kSenderMax);
  const Sender four{Gid::from_ipv4(0x0a000001), 0x1234};
  EXPECT_EQ(encode(four, place), 8u);
  EXPECT_EQ(std::vector(place.begin(), place.begin() + 8), bytes({4, 8, 0x12, 0x34, 10, 0, 0, 1}));
  EXPECT_EQ(decode_sender(place), std::pair(four, std::size_t{8}));
  Sender six{{}, 1};
  six.ip.bytes[0] = 0xfe;
  six.ip.bytes[15] = 7;
  EXPECT_EQ(encode(six, place), 24u);
  EXPECT_EQ(place[8], std::byte{0xfe});
  EXPECT_EQ(decode_sender(place), std::pair(six, std::size_t{24}));
  for (std::size_t size = 0; size < 24; ++size) EXPECT_FALSE(decode_sender(std::span(place).first(size))) << size;
  place[1] = std::byte{8};
  EXPECT_FALSE(decode_sender(place));
}

TEST(RsocketDatagram, IntroductionsHaveTheBytesOfRdmaCore) {
  std::vector<std::byte> place(kIntroductionMax);
  EXPECT_EQ(encode(Introduction{true, 0x010203, Gid::from_ipv4(0x0a000002)}, place), 16u);
  EXPECT_EQ(std::vector(place.begin(), place.begin() + 16),
            bytes({0x55, 0x55, 0x55, 0x55, 4, 0, 16, 0, 0, 1, 2, 3, 10, 0, 0, 2}));
  const auto read = decode_introduction(place);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->first.asks);
  EXPECT_EQ(read->first.qpn, 0x010203u);
  EXPECT_EQ(read->second, 16u);
  Gid six;
  six.bytes[15] = 1;
  EXPECT_EQ(encode(Introduction{false, 1, six}, place), 28u);
  EXPECT_EQ(place[5], std::byte{7});
  EXPECT_FALSE(decode_introduction(place)->first.asks);
  for (std::size_t size = 0; size < 28; ++size) EXPECT_FALSE(decode_introduction(std::span(place).first(size))) << size;
  for (const std::size_t at : {0, 4, 5, 6}) {
    auto other = place;
    other[at] = std::byte{0x33};
    EXPECT_FALSE(decode_introduction(other)) << at;
  }
}

TEST(RsocketTables, AreTurnedAroundForOtherByteOrders) {
  const Mapping turned = swapped(Mapping{1, {2, 3, 4}});
  EXPECT_EQ(turned.offset, uint64_t{1} << 56);
  EXPECT_EQ(turned.memory.address, uint64_t{2} << 56);
  EXPECT_EQ(turned.memory.key, 3u << 24);
  EXPECT_EQ(turned.memory.length, 4u << 24);
}

}  // namespace
}  // namespace uroce::dropin::rsocket::wire
