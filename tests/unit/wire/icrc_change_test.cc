#include "wire/icrc_change.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/random.h"
#include "wire/icrc.h"

namespace uroce::wire {
namespace {

constexpr std::size_t kId = 4, kSourcePort = 20;  // of an IPv4 packet, from its header on
constexpr std::size_t kLeast = 20 + 8 + 12;

std::vector<std::byte> random_packet(std::size_t bytes, Random& random) {
  std::vector<std::byte> packet(bytes);
  for (std::byte& byte : packet) byte = static_cast<std::byte>(random.next());
  packet[0] = std::byte{0x45};
  return packet;
}

void change(std::vector<std::byte>& packet, std::size_t at, uint16_t bits) {
  store_be16(&packet[at], static_cast<uint16_t>(load_be16(&packet[at]) ^ bits));
}

TEST(IcrcChange, IsThatOfTheChangedFrame) {
  Random random(1);
  IcrcChange changes;
  for (int i = 0; i < 2000; ++i) {
    auto packet = random_packet(kLeast + 4 * (random.next() % 2400), random);
    const uint32_t before = icrc_of(packet, 4);
    const auto id = static_cast<uint16_t>(random.next()), port = static_cast<uint16_t>(random.next());
    change(packet, kId, id);
    change(packet, kSourcePort, port);
    const uint32_t expected =
        changes.of(id, packet.size() - kId - 2) ^ changes.of(port, packet.size() - kSourcePort - 2);
    ASSERT_EQ(before ^ icrc_of(packet, 4), expected) << packet.size() << " bytes";
  }
}

TEST(IcrcChange, TellsTheFieldThatChanged) {
  Random random(2);
  IcrcChange changes;
  for (int i = 0; i < 2000; ++i) {
    auto packet = random_packet(kLeast + random.next() % 9000, random);
    const uint32_t before = icrc_of(packet, 4);
    const auto bits = static_cast<uint16_t>(random.next());
    change(packet, kId, bits);
    ASSERT_EQ(changes.bits_for(before ^ icrc_of(packet, 4), packet.size() - kId - 2), bits);
  }
}

TEST(IcrcChange, EveryValueComesBack) {
  IcrcChange changes;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<uint16_t>(bits);
    ASSERT_EQ(changes.bits_for(changes.of(value, 1086), 1086), value);
  }
}

TEST(IcrcChange, OtherDamageIsRarelyTakenForAChange) {
  Random random(3);
  IcrcChange changes;
  constexpr int kTries = 1'000'000;
  int taken = 0;
  for (int i = 0; i < kTries; ++i) taken += changes.bits_for(static_cast<uint32_t>(random.next()), 1086).has_value();
  EXPECT_GT(taken, 3) << "one in 65,536 is expected";
  EXPECT_LT(taken, 45);
}

}  // namespace
}  // namespace uroce::wire
