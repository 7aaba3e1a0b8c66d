// The RoCE that a frame from a program must not carry.
#include "wire/roce_search.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "plain_frames.h"
#include "wire/flow_key.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

bool carries(const FrameBytes& frame) { return may_carry_roce(frame, true); }

TEST(RoceSearch, FindsThePortBehindTagsOptionsAndExtensions) {
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800)), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5})), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5, 6, 7})), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5}, 0x88a8)), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800), {.option_words = 10}), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800), {.fragment = 0x2000}), 0xc000, 4791))) << "the first fragment";
  EXPECT_TRUE(carries(ports(ipv6(ethernet(0x86dd)), 0xc000, 4791)));
  for (const uint8_t extension : {0, 43, 60, 135}) {
    FrameBytes frame = ipv6(ethernet(0x86dd), extension);
    add(frame, {17, 1});  // 16 bytes
    frame.resize(frame.size() + 14);
    EXPECT_TRUE(carries(ports(frame, 0xc000, 4791))) << int{extension};
  }
  FrameBytes fragment = ipv6(ethernet(0x86dd), 44);
  add(fragment, {17, 0, 0, 1, 0, 0, 0, 0});
  EXPECT_TRUE(carries(ports(fragment, 0xc000, 4791)));
}

TEST(RoceSearch, LeavesOthersAlone) {
  EXPECT_FALSE(carries(ethernet(0x88b5)));
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800)), 4791, 5678))) << "from the port, not to it";
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800), {.protocol = 6}), 1, 4791)));
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800), {.fragment = 7}), 1, 4791))) << "a later fragment has no ports";
  EXPECT_FALSE(carries(ports(ethernet(0x88b5), 1, 4791)));
  FrameBytes fragment = ipv6(ethernet(0x86dd), 44);
  add(fragment, {17, 0, 1, 1, 0, 0, 0, 0});
  EXPECT_FALSE(carries(ports(fragment, 0xc000, 4791)));
}

TEST(RoceSearch, HeadersBeyondTheBeginningCount) {
  const FrameBytes whole = ports(ipv6(ethernet(0x86dd)), 0xc000, 5678);
  for (std::size_t bytes = 14; bytes < 14 + 40 + 4; ++bytes) {
    EXPECT_TRUE(may_carry_roce(std::span(whole).first(bytes), false)) << bytes;
    EXPECT_FALSE(may_carry_roce(std::span(whole).first(bytes), true)) << bytes << ": no receiver reads further";
  }
}

// Frames of random headers, and of random bytes. A frame that ports steer as RoCE must be found whatever it is.
TEST(RoceSearch, FindsAllThatIsSteeredAsRoce) {
  constexpr uint64_t kSeed = 20261123;
  Random random(kSeed);
  uint32_t found = 0;
  for (int i = 0; i < 200'000; ++i) {
    FrameBytes frame;
    switch (random.next() % 4) {
      case 0: frame = ports(ipv4(ethernet(0x0800), {.option_words = uint32_t(random.next() % 11)}), 1, 4791); break;
      case 1: frame = ports(ipv4(ethernet(0x0800, {1})), 1, 4791); break;
      case 2: frame = ports(ipv6(ethernet(0x86dd)), 1, 4791); break;
      default: frame.resize(random.next() % 160);
    }
    for (uint64_t changes = random.next() % 4; changes > 0 && !frame.empty(); --changes) {
      frame[random.next() % frame.size()] = static_cast<std::byte>(random.next());
    }
    frame.resize(random.next() % (frame.size() + 1));
    (void)flow_key(frame);  // under sanitizers: reads nothing outside
    const bool whole = frame.size() <= kRoceSearchBytes;
    const bool may = may_carry_roce(whole ? frame : FrameBytes(frame.begin(), frame.begin() + kRoceSearchBytes), whole);
    if (peek(frame).kind != Peek::Kind::roce) continue;
    ++found;
    EXPECT_TRUE(may) << "seed " << kSeed << ", frame " << i;
  }
  EXPECT_GT(found, 10'000u);
}

}  // namespace
}  // namespace uroce::wire
