// The hash by which receive-side scaling spreads frames.
#include "wire/rx_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "plain_frames.h"
#include "rss_vectors.h"

namespace uroce::wire {
namespace {

using enum RxHashField;

constexpr RxHashFields kAddresses4 = RxHashFields(ipv4_source) | ipv4_destination;
constexpr RxHashFields kAddresses6 = RxHashFields(ipv6_source) | ipv6_destination;
constexpr RxHashFields kTcp = RxHashFields(tcp_source_port) | tcp_destination_port;
constexpr RxHashFields kUdp = RxHashFields(udp_source_port) | udp_destination_port;
constexpr uint8_t kTcpProtocol = 6, kUdpProtocol = 17;

struct Vector {
  Gid destination;
  uint16_t destination_port;
  Gid source;
  uint16_t source_port;
  uint32_t addresses;
  uint32_t with_ports;
};
// "Verifying the RSS Hash Calculation", Microsoft.
const Vector kVectors4[] = {
    {ip4(161, 142, 100, 80), 1766, ip4(66, 9, 149, 187), 2794, 0x323e8fc2, 0x51ccc178},
    {ip4(65, 69, 140, 83), 4739, ip4(199, 92, 111, 2), 14230, 0xd718262a, 0xc626b0ea},
    {ip4(12, 22, 207, 184), 38024, ip4(24, 19, 198, 95), 12898, 0xd2d0a5de, 0x5c2b394a},
    {ip4(209, 142, 163, 6), 2217, ip4(38, 27, 205, 30), 48228, 0x82989176, 0xafc7327f},
    {ip4(202, 188, 127, 2), 1303, ip4(153, 39, 163, 191), 44251, 0x5d1809c5, 0x10e828a2},
};
const Vector kVectors6[] = {
    {ip6({0x3ffe, 0x2501, 0x200, 3, 0, 0, 0, 1}), 1766, ip6({0x3ffe, 0x2501, 0x200, 0x1fff, 0, 0, 0, 7}), 2794,
     0x2cc18cd5, 0x40207d3d},
    {ip6({0xff02, 0, 0, 0, 0, 0, 0, 1}), 4739, ip6({0x3ffe, 0x501, 8, 0, 0x260, 0x97ff, 0xfe40, 0xefab}), 14230,
     0x0f0c461c, 0xdde51bbf},
    {ip6({0xfe80, 0, 0, 0, 0x200, 0xf8ff, 0xfe21, 0x67cf}), 38024,
     ip6({0x3ffe, 0x1900, 0x4545, 3, 0x200, 0xf8ff, 0xfe21, 0x67cf}), 44251, 0x4b61e985, 0x02d1feef},
};

constexpr std::size_t kIp = 14;
FrameBytes frame4(const Vector& from, uint8_t protocol, uint16_t fragment = 0) {
  FrameBytes frame = ports(ipv4(ethernet(0x0800), {.protocol = protocol, .fragment = fragment}), from.source_port,
                           from.destination_port);
  std::memcpy(&frame[kIp + 12], &from.source.bytes[12], 4);
  std::memcpy(&frame[kIp + 16], &from.destination.bytes[12], 4);
  return frame;
}
FrameBytes frame6(const Vector& from, uint8_t protocol) {
  FrameBytes frame = ports(ipv6(ethernet(0x86dd), protocol), from.source_port, from.destination_port);
  std::memcpy(&frame[kIp + 8], from.source.bytes.data(), 16);
  std::memcpy(&frame[kIp + 24], from.destination.bytes.data(), 16);
  return frame;
}
uint32_t hash_of(const FrameBytes& frame, RxHashFields fields) { return rx_hash({fields, kRssKey}, flow_key(frame)); }

TEST(RxHash, IsThatOfTheVerificationSuite) {
  for (const Vector& vector : kVectors4) {
    EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), kAddresses4), vector.addresses);
    EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), kAddresses4 | kTcp), vector.with_ports);
    EXPECT_EQ(hash_of(frame4(vector, kUdpProtocol), kAddresses4 | kUdp), vector.with_ports);
  }
  for (const Vector& vector : kVectors6) {
    EXPECT_EQ(hash_of(frame6(vector, kUdpProtocol), kAddresses6), vector.addresses);
    EXPECT_EQ(hash_of(frame6(vector, kTcpProtocol), kAddresses6 | kTcp), vector.with_ports);
    EXPECT_EQ(hash_of(frame6(vector, kUdpProtocol), kAddresses6 | kUdp), vector.with_ports);
  }
}

TEST(RxHash, IsOfTheFieldsThatTheFrameHas) {
  const Vector& vector = kVectors4[0];
  const RxHashFields all = RxHashFields::from_bits(kRxHashFields);
  EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), all), vector.with_ports);
  EXPECT_EQ(hash_of(frame6(kVectors6[0], kUdpProtocol), all), kVectors6[0].with_ports);
  EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), kAddresses4 | kUdp), vector.addresses) << "ports of UDP alone";
  EXPECT_EQ(hash_of(frame4(vector, 50), all), vector.addresses) << "neither TCP nor UDP";
  EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), kAddresses6), 0u);
  EXPECT_EQ(hash_of(frame4(vector, kTcpProtocol), {}), 0u);
  EXPECT_EQ(hash_of(ethernet(0x88b5), all), 0u);
  EXPECT_EQ(hash_of({}, all), 0u);
}

TEST(RxHash, FieldsFollowEachOtherWithoutGaps) {
  const Vector& vector = kVectors4[1];
  const FrameBytes frame = frame4(vector, kUdpProtocol);
  const std::span<const std::byte> bytes(frame);
  EXPECT_EQ(hash_of(frame, ipv4_destination), toeplitz(kRssKey, bytes.subspan(kIp + 16, 4)));
  FrameBytes joined(bytes.begin() + kIp + 12, bytes.begin() + kIp + 16);
  joined.insert(joined.end(), bytes.begin() + kIp + 22, bytes.begin() + kIp + 24);
  EXPECT_EQ(hash_of(frame, ipv4_source | udp_destination_port), toeplitz(kRssKey, joined));
}

TEST(RxHash, FragmentsOfADatagramStayTogether) {
  const Vector& vector = kVectors4[2];
  const RxHashFields fields = kAddresses4 | kUdp;
  constexpr uint16_t kMore = 0x2000;
  EXPECT_EQ(hash_of(frame4(vector, kUdpProtocol, kMore), fields), vector.addresses) << "the first";
  EXPECT_EQ(hash_of(frame4(vector, kUdpProtocol, kMore | 5), fields), vector.addresses);
  EXPECT_EQ(hash_of(frame4(vector, kUdpProtocol, 9), fields), vector.addresses) << "the last";
  EXPECT_EQ(hash_of(frame4(vector, kUdpProtocol, 0x4000), fields), vector.with_ports) << "a whole one";
}

TEST(RxHash, UsesTheWholeKey) {
  FrameBytes last(kMaxHashInput);
  last.back() = std::byte{1};
  // Bit 287 of the input adds bits 287 to 318 of the key.
  EXPECT_EQ(toeplitz(kRssKey, last), uint32_t{0xbeac01fa} >> 1 | 1u << 31);
}

TEST(RxHash, UnknownFieldsAreNamed) {
  EXPECT_TRUE(check_rx_hash({}));
  EXPECT_TRUE(check_rx_hash({.fields = RxHashFields::from_bits(kRxHashFields)}));
  const auto refused = check_rx_hash({.fields = RxHashFields::from_bits(0x301)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().text.find("0x300"), std::string::npos) << refused.error().text;
}

}  // namespace
}  // namespace uroce::wire
