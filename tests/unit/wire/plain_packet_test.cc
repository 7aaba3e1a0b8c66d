#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/random.h"
#include "tests/unit/wire/plain_samples.h"
#include "tests/unit/wire/samples.h"
#include "wire/ethernet.h"
#include "wire/plain_packet.h"

namespace uroce::wire {
namespace {

using test::Bytes;

/// A packet of another kind, whose headers must not show in the next one.
Packet used_packet() {
  Packet packet = test::sample_packet(Opcode::rc_write_only_imm);
  packet.vlan = 7;
  packet.bth_offset = 66;
  return packet;
}

/// True when the frame is plain. A plain packet must be the one that parse() gives.
bool is_plain(const Bytes& frame, Icrc icrc = Icrc::check) {
  Packet plain = used_packet();
  if (!parse_plain(frame, icrc, plain) && !parse_plain_datagram(frame, icrc, plain)) return false;
  Packet whole = used_packet();
  EXPECT_EQ(parse(frame, icrc, whole), Drop::none);
  expect_same(plain, whole);
  return true;
}

Bytes write_of(const Route& route, std::size_t payload) {
  return test::frame_of(test::sample_packet(Opcode::rc_write_only), route, test::sample_payload(payload));
}

TEST(PlainPacket, PacketsOfTheseOpcodesWithoutATagArePlain) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const bool kind = std::ranges::find(kPlain, opcode) != std::end(kPlain);
      EXPECT_EQ(is_plain(test::sample_frame(opcode, route)), kind && !route.vlan) << info(opcode).name;
    }
  }
}

TEST(PlainPacket, TakesEveryLengthOfPayloadAndEthernetPadding) {
  for (const Route& route : {test::sample_routes()[0], test::sample_routes()[1]}) {
    for (const std::size_t length : {0, 1, 2, 3, 4, 8, 1023, 4096}) {
      Bytes frame = write_of(route, length);
      EXPECT_TRUE(is_plain(frame)) << length;
      frame.resize(frame.size() + 9);
      EXPECT_TRUE(is_plain(frame)) << length;
    }
  }
}

TEST(PlainPacket, TakesEveryLengthOfAReadResponse) {
  const Packet sample = test::sample_packet(Opcode::rc_read_response_only);
  for (const std::size_t length : {0, 1, 2, 3, 4, 4096}) {
    EXPECT_TRUE(is_plain(test::frame_of(sample, test::sample_routes()[0], test::sample_payload(length)))) << length;
  }
}

TEST(PlainPacket, RefusesAWrongIcrc) {
  Bytes frame = write_of(test::sample_routes()[0], 8);
  frame.back() ^= std::byte{1};
  EXPECT_FALSE(is_plain(frame));
  EXPECT_TRUE(is_plain(frame, Icrc::skip));
}

TEST(PlainPacket, RefusesEveryCutFrame) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : kPlain) {
      const Bytes whole = test::sample_frame(opcode, route);
      for (std::size_t n = 0; n < whole.size(); ++n) {
        EXPECT_FALSE(is_plain(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)), Icrc::skip)) << n;
      }
    }
  }
}

// Each byte of the headers takes each value. Where IPv4's checksum covers it, once with the right one.
TEST(PlainPacket, AgreesWithTheParserAboutEveryByte) {
  uint32_t plain = 0;
  for (const Route& route : {test::sample_routes()[0], test::sample_routes()[1]}) {
    for (const Opcode opcode : kPlain) {
      const Bytes whole = test::sample_frame(opcode, route);
      for (std::size_t at = 0; at < whole.size(); ++at) {
        for (uint32_t value = 0; value < 256; ++value) {
          Bytes frame = whole;
          frame[at] = static_cast<std::byte>(value);
          plain += is_plain(frame, Icrc::skip) ? 1 : 0;
          if (!route.dgid.is_ipv4()) continue;
          mend_ipv4_checksum(frame);
          plain += is_plain(frame, Icrc::skip) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(plain, 10'000u);
}

TEST(PlainPacket, AgreesWithTheParserAboutRandomHeaders) {
  Random random(7);
  uint32_t plain = 0;
  for (int i = 0; i < 200'000; ++i) {
    const Route route = test::sample_routes()[random.below(4)];
    Bytes frame = test::sample_frame(kPlain[random.below(std::size(kPlain))], route);
    for (uint64_t changes = random.below(4); changes > 0; --changes) {
      frame[12 + random.below(frame.size() - 12)] = static_cast<std::byte>(random.below(256));
    }
    // A short total length with the UDP length that fits it.
    if (route.dgid.is_ipv4() && !route.vlan && random.below(2) == 0) {
      const auto total = static_cast<uint16_t>(random.below(frame.size() + 8));
      store_be16(frame.data() + 16, total);
      store_be16(frame.data() + 38, static_cast<uint16_t>(total - kIpv4Bytes));
      mend_ipv4_checksum(frame);
    }
    plain += is_plain(frame, Icrc::skip) ? 1 : 0;
  }
  EXPECT_GT(plain, 10'000u);
}

TEST(PlainPacket, LeavesIpv4MappedAddressesToTheParser) {
  Route route = test::sample_routes()[1];
  Bytes frame = write_of(route, 8);
  Gid mapped = Gid::from_ipv4(0x0a000001);
  for (const std::size_t at : {22, 38}) {
    Bytes wrong = frame;
    std::memcpy(wrong.data() + at, mapped.bytes.data(), mapped.bytes.size());
    EXPECT_FALSE(is_plain(wrong, Icrc::skip));
    EXPECT_EQ(test::drop_of(wrong, Icrc::skip), Drop::ip_header_invalid);
  }
}

}  // namespace
}  // namespace uroce::wire
