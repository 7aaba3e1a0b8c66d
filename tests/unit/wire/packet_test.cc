#include "wire/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/random.h"
#include "tests/unit/wire/samples.h"
#include "wire/text.h"

namespace uroce::wire {
namespace {

using test::Bytes;
using test::drop_of;

const std::string kCapture = std::string(UROCE_TEST_DATA) + "/rxe_6.1.pcap";

/// A frame in a heap block of its own, so that AddressSanitizer detects every read beyond it.
Drop drop_of_exact(std::span<const std::byte> frame, Icrc icrc = Icrc::check) {
  const auto block = std::make_unique<std::byte[]>(frame.size());
  std::copy(frame.begin(), frame.end(), block.get());
  peek({block.get(), frame.size()});
  const auto packet = parse({block.get(), frame.size()}, icrc);
  return packet ? Drop::none : packet.error();
}

/// The sample frame after `change`, with checksum and ICRC computed anew, so that `change` alone causes the drop.
template <class Change>
Drop drop_after(const Route& route, Change change, Opcode opcode = Opcode::rc_write_only) {
  Bytes frame = test::sample_frame(opcode, route);
  change(frame);
  test::reseal(frame);
  return drop_of(frame);
}

TEST(Parse, HardwareCnp) {
  const Bytes frame = test::hardware_cnp();
  const auto p = parse(frame);
  ASSERT_TRUE(p) << name(p.error());
  EXPECT_EQ(p->icrc, Icrc::check);
  EXPECT_EQ(p->bth.opcode, Opcode::cnp);
  EXPECT_TRUE(p->bth.becn);
  EXPECT_EQ(p->bth.dest_qpn, 0x118u);
  EXPECT_EQ(p->bth.psn, Psn(0));
  EXPECT_EQ(p->ecn, 2);
  EXPECT_EQ(p->hop_limit, 64);
  EXPECT_EQ(p->udp_source, 0);
  EXPECT_EQ(p->source(), Gid::from_ipv4(0x0a001101));
  EXPECT_EQ(p->destination(), Gid::from_ipv4(0x0a001201));
  EXPECT_TRUE(p->payload.empty());
}

TEST(Parse, HardwareUcSendWithUdpChecksum) {
  const Bytes frame = test::hardware_uc_send();
  const auto p = parse(frame);
  ASSERT_TRUE(p) << name(p.error());
  EXPECT_EQ(p->bth.opcode, Opcode::uc_send_only);
  EXPECT_EQ(p->bth.pad, 2);
  EXPECT_EQ(p->payload.size(), 18u);
  EXPECT_EQ(p->payload.data(), frame.data() + 54);
  EXPECT_EQ(p->l3_offset, 14);
  EXPECT_EQ(p->bth_offset, 42);
  EXPECT_EQ(p->ecn, 1);
}

TEST(Parse, EveryRoceFrameOfTheCaptureIsTakenAndOthersAreNot) {
  std::size_t roce = 0, others = 0;
  for (const Bytes& frame : test::read_pcap(kCapture)) {
    const bool is_roce = peek(frame).kind == Peek::Kind::roce;
    (is_roce ? roce : others) += 1;
    EXPECT_EQ(drop_of(frame), is_roce ? Drop::none : Drop::not_roce);
  }
  EXPECT_EQ(roce, 339u);
  EXPECT_EQ(others, 2u);
}

TEST(Parse, FieldsOfEveryOperationOnEveryRoute) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const Packet in = test::sample_packet(opcode);
      const Bytes frame = test::sample_frame(opcode, route);
      const auto out = parse(frame);
      ASSERT_TRUE(out) << in.op().name << " " << name(out.error());
      EXPECT_EQ(out->ip_version, route.sgid.is_ipv4() ? 4 : 6);
      EXPECT_EQ(out->vlan, route.vlan);
      EXPECT_EQ(out->source(), route.sgid);
      EXPECT_EQ(out->destination(), route.dgid);
      EXPECT_EQ(out->hop_limit, route.hop_limit);
      EXPECT_EQ(out->ecn, route.traffic_class & 3);
      EXPECT_EQ(out->bth.psn, in.bth.psn);
      EXPECT_EQ(out->bth.dest_qpn, in.bth.dest_qpn);
      EXPECT_EQ(out->reth.va, in.reth.va);
      EXPECT_EQ(out->reth.rkey, in.reth.rkey);
      EXPECT_EQ(out->reth.length, in.reth.length);
      EXPECT_EQ(out->atomic.va, in.atomic.va);
      EXPECT_EQ(out->atomic.rkey, in.atomic.rkey);
      EXPECT_EQ(out->atomic.swap_add, in.atomic.swap_add);
      EXPECT_EQ(out->atomic.compare, in.atomic.compare);
      EXPECT_EQ(out->aeth.syndrome, in.aeth.syndrome);
      EXPECT_EQ(out->aeth.msn, in.aeth.msn);
      EXPECT_EQ(out->atomic_ack, in.atomic_ack);
      EXPECT_EQ(out->imm, in.imm);
      EXPECT_EQ(out->deth.qkey, in.deth.qkey);
      EXPECT_EQ(out->deth.src_qpn, in.deth.src_qpn);
      const Bytes payload = test::sample_payload(in.op().flags.has(Op::payload) ? 11 : 0);
      EXPECT_TRUE(std::ranges::equal(out->payload, payload));
      EXPECT_EQ(out->bth.pad, payload.empty() ? 0 : 1);
    }
  }
}

TEST(Parse, EveryTruncationIsAnErrorAndReadsNothingBeyond) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const Bytes frame = test::sample_frame(opcode, route);
      ASSERT_EQ(drop_of_exact(frame), Drop::none);
      for (std::size_t n = 0; n < frame.size(); ++n) {
        const Drop drop = drop_of_exact(std::span(frame).first(n));
        EXPECT_TRUE(drop == Drop::truncated || drop == Drop::ip_length) << info(opcode).name << " " << n;
      }
    }
  }
}

TEST(Parse, TruncationThatTheIpLengthsFollowIsAnErrorToo) {
  for (const Route& route : test::sample_routes()) {
    for (const Opcode opcode : test::defined_opcodes()) {
      const Bytes frame = test::sample_frame(opcode, route);
      const std::size_t l3 = route.vlan ? 18 : 14;
      const bool v4 = route.sgid.is_ipv4();
      const std::size_t l4 = l3 + (v4 ? 28 : 48);
      for (std::size_t n = l4; n < frame.size(); ++n) {
        Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(n));
        store_be16(cut.data() + l4 - 4, static_cast<uint16_t>(n - l4 + 8));
        store_be16(cut.data() + l3 + (v4 ? 2 : 4), static_cast<uint16_t>(n - l3 - (v4 ? 0 : 40)));
        test::reseal(cut);
        // Without some whole words of payload it is a shorter, valid packet. Only for these is the ICRC right.
        const bool shorter = n >= l4 + info(opcode).header_length + 8u && n % 4 == frame.size() % 4;
        EXPECT_EQ(drop_of_exact(cut) == Drop::none, shorter) << info(opcode).name << " " << n;
      }
    }
  }
}

TEST(Parse, EveryFlippedBitFromTheIpHeaderOnIsFoundUnlessRoutersMayChangeIt) {
  for (const Route& route : test::sample_routes()) {
    Bytes frame = test::sample_frame(Opcode::rc_write_only_imm, route);
    const bool v4 = route.sgid.is_ipv4();
    const std::size_t l3 = route.vlan ? 18 : 14;
    for (std::size_t bit = l3 * 8; bit < frame.size() * 8; ++bit) {
      const std::size_t at = bit / 8 - l3;
      const std::size_t bth = v4 ? 28 : 48;
      const bool traffic_class = at == 1 || (!v4 && (at == 2 || at == 3 || (at == 0 && bit % 8 >= 4)));
      const bool hop_limit = at == (v4 ? 8u : 7u);
      const bool variant = traffic_class || hop_limit || at == bth - 2 || at == bth - 1 || at == bth + 4;
      frame[bit / 8] ^= static_cast<std::byte>(0x80u >> bit % 8);
      const Drop drop = drop_of(frame);
      // In IPv4 the header checksum covers the fields that the ICRC masks.
      const bool taken = variant && (!v4 || (!traffic_class && !hop_limit));
      EXPECT_EQ(drop == Drop::none, taken) << "byte " << at << " bit " << bit % 8;
      if (at >= bth + Bth::kBytes) {
        EXPECT_EQ(drop, Drop::icrc) << "byte " << at;
      }
      frame[bit / 8] ^= static_cast<std::byte>(0x80u >> bit % 8);
    }
    EXPECT_EQ(drop_of(frame), Drop::none);
  }
}

TEST(Parse, IcrcIsNotLookedAtWhenSkipped) {
  Bytes frame = test::hardware_uc_send();
  frame.back() ^= std::byte{1};
  EXPECT_EQ(drop_of(frame), Drop::icrc);
  const auto p = parse(frame, Icrc::skip);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->icrc, Icrc::skip);
}

TEST(Parse, EthernetPaddingIsIgnored) {
  Bytes frame = test::hardware_cnp();
  frame.resize(frame.size() + 30, std::byte{0x77});
  EXPECT_EQ(drop_of(frame), Drop::none);
}

TEST(Parse, Ipv4HeaderFaults) {
  const Route route = test::sample_routes()[0];
  const auto set = [](std::size_t at, uint8_t v) { return [=](Bytes& f) { store8(f.data() + at, v); }; };
  EXPECT_EQ(drop_after(route, set(14, 0x46)), Drop::ip_header_invalid) << "options";
  EXPECT_EQ(drop_after(route, set(14, 0x65)), Drop::ip_header_invalid) << "version";
  EXPECT_EQ(drop_after(route, set(20, 0x20)), Drop::ip_fragment) << "more fragments";
  EXPECT_EQ(drop_after(route, set(21, 0x01)), Drop::ip_fragment) << "an offset";
  EXPECT_EQ(drop_after(route, set(20, 0x00)), Drop::none) << "DF is not required";
  EXPECT_EQ(drop_after(route, set(23, 6)), Drop::not_roce) << "TCP";
  EXPECT_EQ(drop_after(route, set(37, 0xb6)), Drop::not_roce) << "another port";
  EXPECT_EQ(drop_after(route, set(39, 0)), Drop::ip_length) << "UDP length";
  EXPECT_EQ(drop_after(route, set(12, 0x09)), Drop::not_roce) << "another ethertype";
  Bytes frame = test::sample_frame(Opcode::rc_ack, route);
  frame[24] ^= std::byte{0xff};
  EXPECT_EQ(drop_of(frame), Drop::ip_header_invalid) << "checksum";
}

TEST(Parse, Ipv6HeaderFaults) {
  const Route route = test::sample_routes()[1];
  const auto set = [](std::size_t at, uint8_t v) { return [=](Bytes& f) { store8(f.data() + at, v); }; };
  EXPECT_EQ(drop_after(route, set(14, 0x46)), Drop::ip_header_invalid) << "version";
  EXPECT_EQ(drop_after(route, set(20, 0)), Drop::not_roce) << "a hop-by-hop header";
  EXPECT_EQ(drop_after(route, set(20, 44)), Drop::not_roce) << "a fragment header";
  EXPECT_EQ(drop_after(route, set(57, 0xb6)), Drop::not_roce) << "another port";
  EXPECT_EQ(drop_after(route, set(59, 0)), Drop::ip_length) << "UDP length";
  EXPECT_EQ(drop_after(route, set(19, 7)), Drop::ip_length) << "IP length";
  const auto map = [](std::size_t at) {
    return [at](Bytes& f) { std::memcpy(f.data() + at, Gid::from_ipv4(0xc0000201).bytes.data(), 16); };
  };
  EXPECT_EQ(drop_after(route, map(22)), Drop::ip_header_invalid) << "an IPv4-mapped source";
  EXPECT_EQ(drop_after(route, map(38)), Drop::ip_header_invalid) << "an IPv4-mapped destination";
}

TEST(Parse, OneVlanTagAtMost) {
  Bytes frame = test::sample_frame(Opcode::rc_ack, test::sample_routes()[0]);
  const Bytes tag = test::from_hex("81000005");
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(drop_of(frame), Drop::none);
  frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(drop_of(frame), Drop::not_roce);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xa8};
  EXPECT_EQ(drop_of(frame), Drop::not_roce) << "a provider tag";
}

TEST(Parse, TransportFaults) {
  for (const Route& route : test::sample_routes()) {
    const std::size_t bth = make_template(route).length;
    const auto set = [&](std::size_t at, uint8_t v) { return [=](Bytes& f) { store8(f.data() + bth + at, v); }; };
    EXPECT_EQ(drop_after(route, set(1, 0x11)), Drop::bth_version);
    for (const uint8_t opcode : {0x15, 0x1f, 0x40, 0x80, 0xc2, 0xff}) {
      EXPECT_EQ(drop_after(route, set(0, opcode)), Drop::opcode_unknown) << +opcode;
    }
    EXPECT_EQ(drop_after(route, set(0, 0x0c)), Drop::payload_length) << "a READ request with payload";
    EXPECT_EQ(drop_after(route, set(0, 0x11)), Drop::payload_length) << "an ACK with payload";
    EXPECT_EQ(drop_after(route, set(1, 0x30), Opcode::rc_ack), Drop::payload_length) << "pad without payload";
    EXPECT_EQ(drop_after(route, set(0, 0x13), Opcode::rc_write_only), Drop::payload_length)
        << "headers end at the ICRC";
    EXPECT_EQ(drop_after(route, set(0, 0x13), Opcode::rc_ack), Drop::truncated) << "no room for the AtomicETH";
    EXPECT_EQ(drop_after(route, set(1, 0x30)), Drop::none) << "three bytes of pad";
  }
}

TEST(Parse, RandomBytesBehindGoodLowerLayersNeverReadBeyond) {
  Random random(3);
  const auto routes = test::sample_routes();
  for (int run = 0; run < 20000; ++run) {
    Bytes frame = test::sample_frame(Opcode::rc_write_only_imm, routes[random.below(routes.size())]);
    for (uint64_t flips = random.below(6); flips > 0; --flips) {
      frame[12 + random.below(frame.size() - 12)] = static_cast<std::byte>(random.next());
    }
    if (random.below(2) == 0) test::reseal(frame);
    frame.resize(random.below(8) == 0 ? random.below(frame.size()) : frame.size());
    drop_of_exact(frame, Icrc::skip);
    drop_of_exact(frame, Icrc::check);
  }
}

TEST(Peek, TellsKindsApart) {
  const auto routes = test::sample_routes();
  for (const Route& route : routes) {
    Bytes frame = test::sample_frame(Opcode::rc_ack, route);
    const std::size_t l3 = route.vlan ? 18 : 14;
    const bool v4 = route.sgid.is_ipv4();
    EXPECT_EQ(peek(frame).kind, Peek::Kind::roce);
    EXPECT_EQ(peek(frame).dest_qpn, 0x123456u);
    const std::size_t l4 = make_template(route).length;
    EXPECT_EQ(peek(std::span(frame).first(l4 + 7)).kind, Peek::Kind::roce);
    EXPECT_EQ(peek(std::span(frame).first(l4 + 7)).dest_qpn, 0u);
    frame[l3 + (v4 ? 9 : 6)] = std::byte{v4 ? uint8_t{1} : uint8_t{58}};
    EXPECT_EQ(peek(frame).kind, v4 ? Peek::Kind::icmp : Peek::Kind::icmpv6);
    frame[l3 + (v4 ? 9 : 6)] = v4 ? std::byte{2} : std::byte{0};  // IGMP; hop-by-hop options, then ICMPv6
    if (!v4) frame[l3 + 40] = std::byte{58};
    EXPECT_EQ(peek(frame).kind, v4 ? Peek::Kind::igmp : Peek::Kind::icmpv6);
    frame[l3 + (v4 ? 9 : 6)] = std::byte{6};
    EXPECT_EQ(peek(frame).kind, Peek::Kind::other);
    store_be16(frame.data() + l3 - 2, 0x0806);
    EXPECT_EQ(peek(frame).kind, Peek::Kind::arp);
    store_be16(frame.data() + l3 - 2, 0x88cc);
    EXPECT_EQ(peek(frame).kind, Peek::Kind::other);
  }
  EXPECT_EQ(peek({}).kind, Peek::Kind::other);
}

TEST(Peek, AgreesWithParse) {
  for (const Bytes& frame : test::read_pcap(kCapture)) {
    const auto packet = parse(frame);
    if (packet) {
      EXPECT_EQ(peek(frame).dest_qpn, packet->bth.dest_qpn);
    }
  }
}

/// A frame cut in two behind its headers.
struct Apart {
  explicit Apart(const Bytes& frame) {
    const auto whole = parse(frame).value();
    length = whole.bth_offset + std::size_t{whole.op().header_length};
    std::memcpy(headers.data(), frame.data(), length);
    payload.assign(whole.payload.begin(), whole.payload.end());
  }
  HeaderBytes headers{};
  std::size_t length = 0;
  Bytes payload;
};

TEST(ParseApart, FindsWhatTheWholeFrameHas) {
  for (const Route& route : test::sample_routes()) {
    for (unsigned code = 0; code < 256; ++code) {
      if (info(static_cast<Opcode>(code)).name == nullptr) continue;
      const Bytes frame = test::sample_frame(static_cast<Opcode>(code), route);
      const Apart apart(frame);
      const auto whole = parse(frame);
      const auto packet = parse_apart(apart.headers, apart.length, apart.payload);
      ASSERT_TRUE(packet) << code << ": " << name(packet.error());
      EXPECT_EQ(to_text(*packet), to_text(*whole));
      EXPECT_EQ(packet->payload.data(), apart.payload.data());
      EXPECT_EQ(packet->icrc, Icrc::absent);
      Bytes room(frame.size());
      const auto again = in_one_piece(*packet, room);
      EXPECT_TRUE(std::ranges::equal(again, frame)) << code;
      EXPECT_TRUE(in_one_piece(*packet, std::span(room).first(frame.size() - 1)).empty());
      EXPECT_EQ(in_one_piece(*whole, room).data(), frame.data());
    }
  }
}

TEST(ParseApart, RefusesAPayloadThatTheHeadersDoNotAnnounce) {
  Apart apart(test::sample_frame(Opcode::rc_write_only, test::sample_routes()[0]));
  apart.payload.resize(apart.payload.size() + 4);
  EXPECT_FALSE(parse_apart(apart.headers, apart.length, apart.payload));
  apart.payload.clear();
  EXPECT_FALSE(parse_apart(apart.headers, apart.length, apart.payload));
  EXPECT_FALSE(parse_apart(apart.headers, 0, {}));
}

TEST(InOnePiece, PutsTheIcrcWhereNoneWasComputed) {
  const Bytes frame = test::sample_frame(Opcode::rc_send_only, test::sample_routes()[0]);
  Bytes without = frame;
  std::fill(without.end() - kIcrcBytes, without.end(), std::byte{0});
  const auto packet = parse(without, Icrc::absent);
  ASSERT_TRUE(packet);
  Bytes room(frame.size());
  EXPECT_TRUE(std::ranges::equal(in_one_piece(*packet, room), frame));
}

}  // namespace
}  // namespace uroce::wire
