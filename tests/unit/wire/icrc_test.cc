#include "wire/icrc.h"
#include "wire/flow_icrc.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "tests/unit/wire/samples.h"
#include "wire/flow_icrc.h"

namespace uroce::wire {
namespace {

using test::Bytes;

/// The CRC of annex A17.3.3, bit by bit, over bytes that are already masked.
uint32_t reference_crc(const Bytes& bytes) {
  uint32_t crc = 0xffffffff;
  const auto feed = [&](uint8_t byte) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  };
  for (int i = 0; i < 8; ++i) feed(0xff);
  for (const std::byte b : bytes) feed(static_cast<uint8_t>(b));
  return ~crc;
}

Bytes random_bytes(Random& random, std::size_t n) {
  Bytes bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

Bytes masked(Bytes l3, uint8_t ip_version) {
  const std::vector<std::size_t> v4 = {1, 8, 10, 11, 26, 27, 32};
  const std::vector<std::size_t> v6 = {1, 2, 3, 7, 46, 47, 52};
  for (const std::size_t i : ip_version == 4 ? v4 : v6) l3[i] = std::byte{0xff};
  if (ip_version == 6) l3[0] |= std::byte{0x0f};
  return l3;
}

TEST(Icrc, HardwareVectors) {
  for (const Bytes& frame : {test::hardware_cnp(), test::hardware_uc_send()}) {
    const auto covered = std::span(frame).subspan(14, frame.size() - 14 - kIcrcBytes);
    EXPECT_EQ(icrc_of(covered, 4), load_le32(frame.data() + frame.size() - 4));
  }
}

TEST(Icrc, EqualsTheReferenceAtEveryShortLength) {
  Random random(1);
  for (const uint8_t version : {uint8_t{4}, uint8_t{6}}) {
    for (std::size_t n = version == 4 ? 40 : 60; n < 420; ++n) {
      const Bytes l3 = random_bytes(random, n);
      EXPECT_EQ(icrc_of(l3, version), reference_crc(masked(l3, version))) << "version " << +version << " n " << n;
    }
  }
}

TEST(Icrc, FinishAddsPadAndIcrc) {
  const Bytes headers = test::sample_payload(60);
  for (std::size_t pad = 0; pad < 4; ++pad) {
    Bytes frame = headers;
    frame.resize(60 + pad + kIcrcBytes, std::byte{0xa5});
    EXPECT_EQ(IcrcState::begin(headers, 6).finish(frame.data() + 60, pad), frame.data() + frame.size());
    const std::span<const std::byte> covered(frame.data(), 60 + pad);
    EXPECT_TRUE(std::ranges::all_of(covered.subspan(60), [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(load_le32(frame.data() + 60 + pad), icrc_of(covered, 6));
  }
}

TEST(Icrc, AFlowsBeginsBehindItsSharedHeaders) {
  Random random(2);
  for (int run = 0; run < 2000; ++run) {
    const uint8_t version = random.below(2) == 0 ? 4 : 6;
    const std::size_t shared = (version == 4 ? 28 : 48) + FlowIcrc::kSharedOfBth;
    Bytes l3 = random_bytes(random, shared + 4 + random.below(120));
    FlowIcrc flow;
    flow.learn(l3.data(), version);
    // Another packet of the flow.
    const auto id = static_cast<uint16_t>(random.next());
    if (version == 4) store_be16(l3.data() + 4, id);
    std::ranges::copy(random_bytes(random, l3.size() - shared), l3.begin() + static_cast<std::ptrdiff_t>(shared));
    auto state = IcrcState::resume(flow.at(version == 4 ? id : 0));
    state.update(std::span(l3).subspan(shared));
    ASSERT_EQ(state.value(), reference_crc(masked(l3, version)))
        << "version " << +version << ", " << l3.size() << " bytes";
  }
}

TEST(Icrc, EmptyPiecesChangeNothing) {
  const Bytes l3 = test::sample_payload(60);
  IcrcState state = IcrcState::begin(l3, 6);
  state.update({});
  state.copy(nullptr, {});
  EXPECT_EQ(state.value(), icrc_of(l3, 6));
}

}  // namespace
}  // namespace uroce::wire
