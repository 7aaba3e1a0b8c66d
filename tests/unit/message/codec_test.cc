#include "message/codec.h"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/qp_messages.h"

namespace uroce::message {
namespace {

std::vector<std::byte> bytes_of(const auto& value) {
  std::vector<std::byte> out;
  encode(out, value);
  return out;
}

TEST(Codec, ReadsItsOwnBytes) {
  QpAttr attr;
  attr.state = QpState::rts;
  attr.rq_psn = 0x123456;
  attr.timeout = 14;
  attr.cap.max_send_wr = 77;
  attr.av.dgid = Gid::from_ipv4(0x0a000001);
  attr.av.flow_label = 0xabcde;
  const ModifyQp sent{.qp = 5, .steps = {{QpAttrMask(QpAttrBit::state) | QpAttrBit::av, attr}}};
  ModifyQp got;
  ASSERT_TRUE(decode(bytes_of(sent), got));
  EXPECT_EQ(got.qp, 5u);
  ASSERT_EQ(got.steps.size(), 1u);
  EXPECT_EQ(got.steps[0].mask, sent.steps[0].mask);
  const QpAttr& value = got.steps[0].attr;
  EXPECT_EQ(value.state, QpState::rts);
  EXPECT_EQ(value.rq_psn, 0x123456u);
  EXPECT_EQ(value.timeout, 14);
  EXPECT_EQ(value.cap.max_send_wr, 77u);
  EXPECT_EQ(value.av.dgid, attr.av.dgid);
  EXPECT_EQ(value.av.flow_label, 0xabcdeu);
}

struct Grown {
  uint32_t first = 1;
  uint32_t later = 2;  // since version 5
  std::string last{};  // since version 7
  static void fields(auto& self, auto& archive) {
    archive(self.first);
    archive.since(5, self.later);
    archive.since(7, self.last);
  }
};

TEST(Codec, AnOlderSideGetsTheMembersThatItKnows) {
  const std::vector<Grown> sent{{10, 20, "x"}, {11, 21, "yz"}};
  for (const auto& [protocol, later, last] :
       {std::tuple(4u, 2u, ""), std::tuple(5u, 21u, ""), std::tuple(7u, 21u, "yz")}) {
    std::vector<std::byte> bytes;
    encode(bytes, sent, protocol);
    std::vector<Grown> got;
    ASSERT_TRUE(decode(bytes, got, protocol)) << protocol;
    EXPECT_EQ(got[1].first, 11u);
    EXPECT_EQ(got[1].later, later) << protocol;
    EXPECT_EQ(got[1].last, last) << protocol;
    EXPECT_EQ(decode(bytes, got, 6), protocol == 5) << "both sides use one version";
  }
}

TEST(Hello, TheNewestVersionThatBothSpeak) {
  EXPECT_EQ(common_version(23, 22, 23, 22), 23u);
  EXPECT_EQ(common_version(23, 22, 99, 20), 23u);
  EXPECT_EQ(common_version(99, 20, 23, 22), 23u);
  EXPECT_EQ(common_version(23, 22, 22, 22), 22u);
  EXPECT_EQ(common_version(23, 22, 21, 1), std::nullopt);
  EXPECT_EQ(common_version(23, 22, 30, 24), std::nullopt);
  EXPECT_EQ(common_version(23, 22, 22, 23), std::nullopt) << "a range that is upside down";
}

TEST(Hello, ASideBeforeThereWereRangesSpeaksOneVersion) {
  Hello hello;
  ASSERT_TRUE(decode(bytes_of(Hello{.protocol = 22, .queue_abi = 5, .oldest_protocol = 1}), hello));
  EXPECT_EQ(hello.oldest_protocol, 22u);
  EXPECT_EQ(hello.oldest_queue_abi, 5u);
}

TEST(Codec, ListsAndTextKeepTheirLengths) {
  HelloReply sent;
  sent.daemon.version = "1.2";
  sent.devices.resize(2);
  sent.devices[1].name = "uroce1";
  sent.devices[1].gids = {Gid::from_ipv4(1), Gid::from_ipv4(2)};
  sent.devices[1].link_up = true;
  HelloReply got;
  ASSERT_TRUE(decode(bytes_of(sent), got));
  ASSERT_EQ(got.devices.size(), 2u);
  EXPECT_EQ(got.daemon.version, "1.2");
  EXPECT_EQ(got.devices[1].name, "uroce1");
  EXPECT_EQ(got.devices[1].gids, sent.devices[1].gids);
  EXPECT_TRUE(got.devices[1].link_up);
  EXPECT_FALSE(got.devices[0].link_up);
}

TEST(Codec, RefusesEveryTruncationAndTrailingBytes) {
  RegisterMemory sent{.pd = 1, .base = 2, .length = 3, .address = 4};
  sent.segments = {{0, 0, 4096}, {1, 4096, 8192}};
  const auto bytes = bytes_of(sent);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    RegisterMemory got;
    EXPECT_FALSE(decode(std::span(bytes).first(n), got)) << n << " of " << bytes.size();
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  RegisterMemory got;
  EXPECT_FALSE(decode(longer, got));
  EXPECT_TRUE(decode(bytes, got));
}

TEST(Codec, ALengthThatLiesCostsNoMemory) {
  std::vector<std::byte> bytes(64, std::byte{0xff});  // four thousand million elements, it says
  Counters got;
  EXPECT_FALSE(decode(bytes, got));
  EXPECT_TRUE(got.values.empty());
  OpenDevice name;
  EXPECT_FALSE(decode(bytes, name));
  EXPECT_TRUE(name.name.empty());
}

TEST(Codec, AByteThatIsNoBoolIsReadAsOne) {
  LinkUp got;
  const std::byte odd[] = {std::byte{0x5a}};
  ASSERT_TRUE(decode(odd, got));
  EXPECT_TRUE(got.up);
}

TEST(Codec, NoBytesAtAllCanDoHarm) {
  constexpr uint64_t kSeed = 20261121;
  Random random(kSeed);
  for (int run = 0; run < 20000; ++run) {
    std::vector<std::byte> bytes(random.next() % 200);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random.next() & (run % 2 == 0 ? 0xff : 0x03));
    HelloReply hello;
    RegisterMemory memory;
    ObjectRows rows;
    ModifyQp modify;
    (void)decode(bytes, hello);
    (void)decode(bytes, memory);
    (void)decode(bytes, rows);
    if (decode(bytes, modify)) {
      EXPECT_EQ(bytes_of(modify).size(), bytes.size()) << "seed " << kSeed << ", run " << run;
    }
  }
}

}  // namespace
}  // namespace uroce::message
