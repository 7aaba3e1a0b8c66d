// Super-frames are joined from frames and taken apart again: every byte of every frame, but for the UDP checksum, comes
// back. Forged ones are refused.
#include "pmd_glue/kif/super_frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "tests/support/encode.h"

namespace uroce::glue::kif {
namespace {

using Bytes = std::vector<std::byte>;

wire::Route route(bool ipv4) {
  wire::Route r;
  r.src_mac.bytes = {2, 0, 0, 0, 0, 1};
  r.dst_mac.bytes = {2, 0, 0, 0, 0, 2};
  r.sgid = Gid::from_ipv4(0x0a000001);
  r.dgid = Gid::from_ipv4(0x0a0000fe);
  if (ipv4) return r;
  r.sgid.bytes = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 1};
  r.dgid.bytes = {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 2};
  return r;
}

/// A WRITE's middle packet whose IPv4 id is the PSN's low half.
Bytes frame(const wire::Route& r, uint32_t psn, std::size_t payload_bytes, uint32_t qpn = 0x123) {
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::rc_write_middle;
  packet.bth.dest_qpn = qpn;
  packet.bth.psn = Psn(psn);
  Bytes payload(payload_bytes);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7 + psn);
  Bytes out(kMaxHeaderBytes + 12 + payload_bytes + 8);
  out.resize(test::encode(out, packet, r, payload, {.ipv4_id = static_cast<uint16_t>(psn)}));
  return out;
}

struct Super {
  VnetHeader vnet;
  Bytes bytes;
};

/// Joins the longest prefix of `frames`.
Super join(const std::vector<Bytes>& frames) {
  FrameRun run(frames[0], static_cast<uint32_t>(frames[0].size()));
  Bytes payload(frames[0].begin() + run.header_bytes(), frames[0].end());
  for (std::size_t i = 1; i < frames.size(); ++i) {
    if (!run.add(frames[i], static_cast<uint32_t>(frames[i].size()))) break;
    payload.insert(payload.end(), frames[i].begin() + run.header_bytes(), frames[i].end());
  }
  Super out;
  out.bytes.resize(run.header_bytes());
  out.vnet = run.finish(out.bytes.data());
  out.bytes.insert(out.bytes.end(), payload.begin(), payload.end());
  return out;
}

std::vector<Bytes> take_apart(const Super& super) {
  const auto parts = split(super.vnet, super.bytes, static_cast<uint32_t>(super.bytes.size()));
  if (!parts) return {};
  std::vector<Bytes> out;
  const std::size_t headers = parts->headers.length;
  for (uint32_t i = 0; i < parts->segments; ++i) {
    Bytes one(headers + parts->bytes_of(i));
    const auto all = std::span(super.bytes).subspan(headers);
    const auto segment = all.subspan(std::size_t{i} * parts->segment_bytes, parts->bytes_of(i));
    const uint16_t id = segment_id(super.bytes, all.first(parts->bytes_of(0)), segment, i);
    SegmentHeaders(super.bytes, *parts).write(one.data(), i, id);
    std::ranges::copy(segment, one.begin() + static_cast<std::ptrdiff_t>(headers));
    out.push_back(std::move(one));
  }
  return out;
}

SuperFault fault_of(const Super& super) {
  const auto parts = split(super.vnet, super.bytes, static_cast<uint32_t>(super.bytes.size()));
  return parts ? SuperFault{0xff} : parts.error();
}

TEST(SuperFrame, AWindowFillsThem) {
  EXPECT_EQ(in_whole_super_frames(256, 4096), 17u * 15);
  EXPECT_EQ(in_whole_super_frames(256, 1024), 4u * 62);
  EXPECT_EQ(in_whole_super_frames(256, 256), 4u * 64);
  EXPECT_EQ(in_whole_super_frames(61, 1024), 0u) << "none is full";
}

TEST(SuperFrame, ComesBackByteForByte) {
  for (const bool ipv4 : {true, false}) {
    for (const uint32_t first : {5u, 0xfffeu, 0xffffffu}) {
      std::vector<Bytes> frames;
      for (uint32_t i = 0; i < 12; ++i)
        frames.push_back(frame(route(ipv4), (first + i) & 0xffffff, i == 11 ? 100 : 1024));
      const auto again = take_apart(join(frames));
      ASSERT_EQ(again.size(), frames.size());
      for (std::size_t i = 0; i < frames.size(); ++i) {
        EXPECT_EQ(again[i], frames[i]) << i;
        EXPECT_TRUE(wire::parse(again[i])) << "the ICRC of " << i;
      }
    }
  }
}

// Linux before 6.10 merges such frames on arrival.
TEST(SuperFrame, FramesOfTwoQueuePairsThatTheKernelMergedComeBack) {
  const std::vector<Bytes> frames{frame(route(true), 100, 64), frame(route(true), 7000, 64, 0x999),
                                  frame(route(true), 101, 64)};
  Super super = join({frames[0], frame(route(true), 101, 64), frame(route(true), 102, 64)});
  for (std::size_t i = 0; i < 3; ++i)
    std::copy(frames[i].begin() + 42, frames[i].end(), super.bytes.begin() + static_cast<std::ptrdiff_t>(42 + i * 80));
  EXPECT_EQ(take_apart(super), frames);
}

// Another stack's ids have nothing to do with its PSNs.
TEST(SuperFrame, OtherIdsCountUp) {
  std::vector<Bytes> frames;
  for (uint32_t i = 0; i < 4; ++i) {
    frames.push_back(frame(route(true), 500 + 2 * i, 64));
    store_be16(frames[i].data() + 18, static_cast<uint16_t>(9 + i));
    ASSERT_TRUE(test::reseal(frames[i]));
  }
  EXPECT_EQ(take_apart(join(frames)), frames);
}

// The kernel takes the tag out before it hands a frame to a packet socket.
TEST(SuperFrame, TaggedFramesJoin) {
  for (const bool ipv4 : {true, false}) {
    wire::Route tagged = route(ipv4);
    tagged.vlan = 7;
    std::vector<Bytes> frames, bare;
    for (uint32_t i = 0; i < 9; ++i) {
      frames.push_back(frame(tagged, i, i == 8 ? 100 : 1024));
      bare.push_back(frame(route(ipv4), i, i == 8 ? 100 : 1024));
    }
    Super super = join(frames);
    EXPECT_EQ(super.vnet.hdr_len, (ipv4 ? 42 : 62) + 4);
    EXPECT_EQ(super.vnet.csum_start, (ipv4 ? 34 : 54) + 4);
    EXPECT_EQ(fault_of(super), SuperFault::headers) << "with its tag";
    super.bytes.erase(super.bytes.begin() + 12, super.bytes.begin() + 16);
    EXPECT_EQ(take_apart(super), bare);
  }
}

TEST(SuperFrame, EndsWhereFramesDiffer) {
  const wire::Route r = route(true);
  const Bytes first = frame(r, 1, 256);
  const auto joins = [&](const Bytes& next) {
    FrameRun run(first, static_cast<uint32_t>(first.size()));
    return run.add(next, static_cast<uint32_t>(next.size()));
  };
  EXPECT_TRUE(joins(frame(r, 2, 256)));
  EXPECT_TRUE(joins(frame(r, 2, 0)));
  EXPECT_TRUE(joins(frame(r, 2, 256, 0x999)));  // two queue pairs may share a flow
  EXPECT_FALSE(joins(frame(r, 3, 256)));
  EXPECT_FALSE(joins(frame(r, 2, 260)));
  wire::Route other = r;
  other.dgid = Gid::from_ipv4(0x0a0000fd);
  EXPECT_FALSE(joins(frame(other, 2, 256)));
  other = r;
  other.traffic_class = 0x20;
  EXPECT_FALSE(joins(frame(other, 2, 256)));
  other = r;
  other.dst_mac.bytes[5] = 9;
  EXPECT_FALSE(joins(frame(other, 2, 256)));
  other = r;
  other.vlan = 5;
  EXPECT_FALSE(joins(frame(other, 2, 256)));
  const Bytes first_tagged = frame(other, 1, 256);
  FrameRun tagged(first_tagged, static_cast<uint32_t>(first_tagged.size()));
  other.vlan = 6;
  EXPECT_FALSE(tagged.add(frame(other, 2, 256), static_cast<uint32_t>(first_tagged.size())));
  other.vlan = 5;
  other.dst_mac.bytes[0] = 4;
  EXPECT_FALSE(tagged.add(frame(other, 2, 256), static_cast<uint32_t>(first_tagged.size())));
  EXPECT_FALSE(joins(frame(route(false), 2, 256)));
  Bytes padded = frame(r, 2, 252);
  padded.resize(padded.size() + 4);
  EXPECT_FALSE(joins(padded));
}

TEST(SuperFrame, AShorterFrameIsTheLast) {
  const wire::Route r = route(true);
  const auto again = take_apart(join({frame(r, 1, 256), frame(r, 2, 128), frame(r, 3, 128)}));
  EXPECT_EQ(again.size(), 2u);
}

TEST(SuperFrame, HasALimit) {
  for (const bool ipv4 : {true, false}) {
    std::vector<Bytes> small, large;
    for (uint32_t i = 0; i < 80; ++i) {
      small.push_back(frame(route(ipv4), i, 0));
      large.push_back(frame(route(ipv4), i, 4096));
    }
    EXPECT_EQ(take_apart(join(small)).size(), kMaxSegments);
    const Super super = join(large);
    EXPECT_EQ(take_apart(super).size(), 15u);
    EXPECT_LE(super.bytes.size() - 14, kMaxIpBytes);
  }
}

TEST(SuperFrame, OtherFramesStayAlone) {
  Bytes arp(42);
  store_be16(arp.data() + 12, 0x0806);
  FrameRun run(arp, 42);
  EXPECT_EQ(run.header_bytes(), 0u);
  EXPECT_FALSE(run.add(arp, 42));
  Bytes fragment = frame(route(true), 1, 64);
  store_be16(fragment.data() + 20, 0x2000);
  EXPECT_FALSE(udp_headers(fragment));
  EXPECT_FALSE(udp_headers(std::span(fragment).first(41)));
  const Bytes v6 = frame(route(false), 1, 64);
  EXPECT_TRUE(udp_headers(std::span(v6).first(62)));
  EXPECT_FALSE(udp_headers(std::span(v6).first(61)));
}

TEST(SuperFrame, ForgedOnesAreRefused) {
  for (const bool ipv4 : {true, false}) {
    const std::size_t udp = ipv4 ? 34 : 54;
    std::vector<Bytes> frames;
    for (uint32_t i = 0; i < 4; ++i) frames.push_back(frame(route(ipv4), i, 512));
    const Super good = join(frames);
    ASSERT_EQ(take_apart(good).size(), 4u);

    Super bad = good;
    for (const uint8_t kind : {0, 1, 3, 4, 0x85, 0xff}) {
      bad.vnet.gso_type = kind;
      EXPECT_EQ(fault_of(bad), SuperFault::kind);
    }
    bad = good;
    for (const uint16_t size : {0, 1, 15}) {
      bad.vnet.gso_size = size;
      EXPECT_EQ(fault_of(bad), SuperFault::segment);
    }
    bad.vnet.gso_size = 16;  // 2,112 bytes behind the UDP header: 132 segments
    EXPECT_EQ(fault_of(bad), SuperFault::segment);
    bad.vnet.gso_size = 0xffff;
    EXPECT_EQ(take_apart(bad).size(), 1u);
    const auto one = split(bad.vnet, bad.bytes, static_cast<uint32_t>(bad.bytes.size()));
    EXPECT_EQ(one->segment_bytes, one->payload_bytes) << "no longer than what there is";

    bad = good;
    bad.bytes.pop_back();
    EXPECT_EQ(fault_of(bad), SuperFault::lengths);
    bad.bytes.resize(good.bytes.size() + 1);
    EXPECT_EQ(fault_of(bad), SuperFault::lengths);
    bad = good;
    store_be16(bad.bytes.data() + udp + 4, 7);
    EXPECT_EQ(fault_of(bad), SuperFault::lengths);
    bad = good;
    bad.bytes[14] ^= std::byte{0x21};  // another version, and IPv4 options
    EXPECT_EQ(fault_of(bad), SuperFault::headers);
    for (const std::size_t length : {0, 1, 14, 41, 42, 61}) {
      bad = good;
      bad.bytes.resize(length);
      EXPECT_NE(fault_of(bad), SuperFault{0xff}) << length;
    }
  }
}

}  // namespace
}  // namespace uroce::glue::kif
