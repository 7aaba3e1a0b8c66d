#include "wire/header_prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "tests/unit/wire/plain_samples.h"

namespace uroce::wire {
namespace {

using test::Bytes;

const Route kIpv4Route = test::sample_routes()[0];

/// Learns `frame`. False: it is not plain.
bool learn(HeaderPrediction& prediction, const Bytes& frame) {
  Packet packet;
  if (!parse_plain(frame, Icrc::check, packet) && !parse_plain_datagram(frame, Icrc::check, packet)) return false;
  prediction.learn(frame, packet);
  return true;
}

/// True when the frame is as predicted. Its packet must then be the one that parse() gives.
bool takes(HeaderPrediction& prediction, const Bytes& frame, Icrc icrc = Icrc::check) {
  if (!prediction.takes(frame, icrc)) return false;
  Packet whole;
  EXPECT_EQ(parse(frame, icrc, whole), Drop::none);
  expect_same(prediction.packet(), whole);
  return true;
}

/// The frame after `frame` in its flow, with another extended header and payload.
Bytes next_of(Opcode opcode, uint32_t psn) {
  Packet packet = test::sample_packet(opcode);
  packet.bth.psn = Psn(psn);
  packet.bth.ack_request = !packet.bth.ack_request;
  packet.bth.reserved7 ^= 3;
  packet.reth.va += 4096;
  packet.atomic.va += 8;
  packet.atomic_ack ^= 0x1234;
  packet.aeth.msn += 1;
  packet.deth.src_qpn += 1;
  const Bytes sample = test::sample_frame(opcode, kIpv4Route);
  Packet parsed;
  EXPECT_EQ(parse(sample, Icrc::check, parsed), Drop::none);
  return test::frame_of(packet, kIpv4Route, Bytes(parsed.payload.begin(), parsed.payload.end()));
}

TEST(HeaderPrediction, TakesTheNextPacketOfAFlow) {
  for (const Opcode opcode : kPlain) {
    HeaderPrediction prediction;
    ASSERT_TRUE(learn(prediction, test::sample_frame(opcode, kIpv4Route)));
    for (uint32_t psn = 0xfffffe; psn != 0x1000002; ++psn)
      EXPECT_TRUE(takes(prediction, next_of(opcode, psn & 0xffffff))) << info(opcode).name;
  }
}

TEST(HeaderPrediction, IsForOneFlowInIpv4) {
  HeaderPrediction prediction;
  const Bytes frame = test::sample_frame(Opcode::rc_write_only, kIpv4Route);
  EXPECT_FALSE(takes(prediction, frame)) << "nothing is predicted";
  ASSERT_TRUE(learn(prediction, frame));
  for (const Opcode opcode : test::defined_opcodes()) {
    for (const Route& route : test::sample_routes()) {
      const bool same = opcode == Opcode::rc_write_only && route.dgid.is_ipv4() && !route.vlan;
      EXPECT_EQ(takes(prediction, test::sample_frame(opcode, route)), same) << info(opcode).name;
    }
  }
  prediction.forget();
  EXPECT_FALSE(takes(prediction, frame));
  ASSERT_TRUE(learn(prediction, test::sample_frame(Opcode::rc_write_only, test::sample_routes()[1])));
  EXPECT_FALSE(takes(prediction, test::sample_frame(Opcode::rc_write_only, test::sample_routes()[1])));
}

TEST(HeaderPrediction, RefusesAWrongIcrcAndAnotherLength) {
  HeaderPrediction prediction;
  Bytes frame = test::sample_frame(Opcode::rc_write_only, kIpv4Route);
  ASSERT_TRUE(learn(prediction, frame));
  for (std::size_t n = 0; n < frame.size(); ++n) {
    EXPECT_FALSE(takes(prediction, Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n)), Icrc::skip));
  }
  frame.back() ^= std::byte{1};
  EXPECT_FALSE(takes(prediction, frame));
  EXPECT_TRUE(takes(prediction, frame, Icrc::skip));
  frame.push_back({});
  EXPECT_FALSE(takes(prediction, frame, Icrc::skip));
}

TEST(HeaderPrediction, AFlowShowsByThreeBeginnings) {
  HeaderPrediction prediction;
  const Bytes write = test::sample_frame(Opcode::rc_write_only, kIpv4Route);
  const Bytes send = test::sample_frame(Opcode::rc_send_only, kIpv4Route);
  const auto comes_again = [&](const Bytes& frame) {
    return prediction.comes_again(HeaderPrediction::beginning_of(frame));
  };
  for (const Bytes& frame : {write, write, send, write, send, send, write, write}) EXPECT_FALSE(comes_again(frame));
  EXPECT_TRUE(comes_again(write));
  EXPECT_FALSE(comes_again(write)) << "another three, where it was not as predicted";
  ASSERT_TRUE(learn(prediction, write));
  EXPECT_TRUE(prediction.begins_with(HeaderPrediction::beginning_of(write)));
  EXPECT_FALSE(prediction.begins_with(HeaderPrediction::beginning_of(send)));
  EXPECT_EQ(HeaderPrediction::beginning_of(Bytes(50)), 0u) << "too short";
}

// Each byte takes each value. Where IPv4's checksum covers it, once with the right one.
TEST(HeaderPrediction, AgreesWithTheParserAboutEveryByte) {
  uint32_t taken = 0;
  for (const Opcode opcode : kPlain) {
    HeaderPrediction prediction;
    ASSERT_TRUE(learn(prediction, test::sample_frame(opcode, kIpv4Route)));
    const Bytes whole = next_of(opcode, 7);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (uint32_t value = 0; value < 256; ++value) {
        Bytes frame = whole;
        frame[at] = static_cast<std::byte>(value);
        taken += takes(prediction, frame, Icrc::skip) ? 1 : 0;
        mend_ipv4_checksum(frame);
        taken += takes(prediction, frame, Icrc::skip) ? 1 : 0;
      }
    }
  }
  EXPECT_GT(taken, 10'000u);
}

TEST(HeaderPrediction, AgreesWithTheParserAboutChecksums) {
  Random random(11);
  HeaderPrediction prediction;
  const Bytes whole = test::sample_frame(Opcode::rc_ack, kIpv4Route);
  ASSERT_TRUE(learn(prediction, whole));
  uint32_t taken = 0;
  for (int i = 0; i < 100'000; ++i) {
    Bytes frame = whole;
    store_be16(frame.data() + kEthernetBytes + 4, static_cast<uint16_t>(random.below(65536)));
    mend_ipv4_checksum(frame);
    if (random.below(2) == 0)
      store_be16(frame.data() + kEthernetBytes + 10, static_cast<uint16_t>(random.below(65536)));
    taken += takes(prediction, frame, Icrc::skip) ? 1 : 0;
  }
  EXPECT_GT(taken, 40'000u);
}

}  // namespace
}  // namespace uroce::wire
