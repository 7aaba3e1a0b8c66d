#include "tests/support/encode.h"

#include <gtest/gtest.h>

#include "tests/unit/wire/samples.h"

namespace uroce::wire {
namespace {

using test::Bytes;

/// The frame parsed and encoded again.
Bytes encoded_again(const Bytes& frame) {
  const auto packet = parse(frame);
  if (!packet) return {};
  const Bytes payload(packet->payload.begin(), packet->payload.end());
  return test::frame_of(*packet, test::route_of(*packet), payload, test::framing_of(*packet));
}

TEST(Encode, HardwareVectorsComeBack) {
  EXPECT_EQ(encoded_again(test::hardware_cnp()), test::hardware_cnp());
  EXPECT_EQ(encoded_again(test::hardware_uc_send()), test::hardware_uc_send());
}

TEST(Encode, EveryCapturedFrameComesBackByteForByte) {
  std::size_t count = 0;
  for (const Bytes& frame : test::read_pcap(std::string(UROCE_TEST_DATA) + "/rxe_6.1.pcap")) {
    if (peek(frame).kind != Peek::Kind::roce) continue;
    EXPECT_EQ(encoded_again(frame), frame) << "RoCE frame " << count;
    ++count;
  }
  EXPECT_EQ(count, 339u);
}

TEST(Encode, EveryOperationOnEveryRouteWithEveryPadComesBack) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const Packet packet = test::sample_packet(opcode);
      for (const std::size_t n : {0, 1, 2, 3, 4, 255, 1024, 4096}) {
        if (n != 0 && !packet.op().flags.has(Op::payload)) continue;
        const test::Framing framing = {0xd00d, 0x1234, 0x4321, n % 2 == 0};
        const Bytes frame = test::frame_of(packet, route, test::sample_payload(n), framing);
        ASSERT_EQ(test::drop_of(frame), Drop::none) << packet.op().name << " " << n;
        EXPECT_EQ(encoded_again(frame), frame) << packet.op().name << " " << n;
      }
    }
  }
}

TEST(Encode, RefusesWhatDoesNotFit) {
  const Route route = test::sample_routes()[0];
  const Packet packet = test::sample_packet(Opcode::rc_write_only);
  const Bytes payload = test::sample_payload(5);
  Bytes out(14 + 20 + 8 + 28 + 8 + 4);
  EXPECT_EQ(test::encode(out, packet, route, payload), out.size());
  EXPECT_EQ(test::encode(std::span(out).first(out.size() - 1), packet, route, payload), 0u);
  Packet unknown = packet;
  unknown.bth.opcode = static_cast<Opcode>(0xff);
  EXPECT_EQ(test::encode(out, unknown, route, payload), 0u);
  Bytes large(70000);
  EXPECT_EQ(test::encode(large, packet, route, test::sample_payload(65536)), 0u);
}

TEST(Encode, ResealMakesAChangedFrameGoodAgain) {
  for (const Route& route : test::sample_routes()) {
    Bytes frame = test::sample_frame(Opcode::rc_send_only, route);
    frame[frame.size() - 10] ^= std::byte{0xff};
    frame[(route.vlan ? 18u : 14u) + 12u] ^= std::byte{0x01};
    EXPECT_NE(test::drop_of(frame), Drop::none);
    EXPECT_TRUE(test::reseal(frame));
    EXPECT_EQ(test::drop_of(frame), Drop::none);
    for (std::size_t n = 0; n < frame.size(); ++n) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_FALSE(test::reseal(cut)) << n;
    }
  }
}

}  // namespace
}  // namespace uroce::wire
