#include "transport/datagram/flow_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::transport {
namespace {

std::vector<std::byte> frame_to(uint8_t first_byte) {
  std::vector<std::byte> frame(60);
  frame[0] = std::byte{first_byte};
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xb5};
  return frame;
}

FlowEntry entry(uint64_t id, uint32_t qpn, const FlowRule& rule = {}) {
  return {
      .id = id, .qpn = qpn, .type = rule.type, .priority = rule.priority, .pattern = wire::make_pattern(rule).value()};
}

FlowRule to_mac(uint8_t first_byte, uint16_t priority = 0) {
  FlowRule rule{.priority = priority};
  rule.value.eth_destination.bytes[0] = first_byte;
  rule.mask.eth_destination.bytes[0] = 0xff;
  return rule;
}

TEST(FlowTable, TheFirstByPriorityTakesTheFrame) {
  FlowTable table;
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.match(frame_to(2)), 0u);
  ASSERT_TRUE(table.add(entry(1, 0x11, to_mac(2, 5))));
  ASSERT_TRUE(table.add(entry(2, 0x12, to_mac(2, 3))));
  ASSERT_TRUE(table.add(entry(3, 0x13, to_mac(2, 3))));
  EXPECT_EQ(table.match(frame_to(2)), 0x12u) << "of equals the oldest";
  EXPECT_EQ(table.match(frame_to(4)), 0u);
  table.remove(2);
  EXPECT_EQ(table.match(frame_to(2)), 0x13u);
  table.remove(3);
  EXPECT_EQ(table.match(frame_to(2)), 0x11u);
  table.remove(1);
  EXPECT_TRUE(table.empty());
}

TEST(FlowTable, DefaultsComeLastWhateverTheirPriority) {
  FlowTable table;
  ASSERT_TRUE(table.add(entry(1, 0x11, {.type = FlowType::all_default})));
  ASSERT_TRUE(table.add(entry(2, 0x12, {.type = FlowType::mc_default, .priority = 9})));
  ASSERT_TRUE(table.add(entry(3, 0x13, to_mac(3, 65535))));
  EXPECT_EQ(table.match(frame_to(2)), 0x11u);
  EXPECT_EQ(table.match(frame_to(1)), 0x12u) << "to a group";
  EXPECT_EQ(table.match(frame_to(3)), 0x13u);
}

TEST(FlowTable, SniffersTakeNothingFromOthers) {
  FlowTable table;
  ASSERT_TRUE(table.add(entry(1, 0x11, {.type = FlowType::sniffer})));
  EXPECT_FALSE(table.empty());
  EXPECT_EQ(table.match(frame_to(2)), 0u);
  ASSERT_EQ(table.sniffers().size(), 1u);
  EXPECT_EQ(table.sniffers()[0].qpn, 0x11u);
  table.remove(1);
  EXPECT_TRUE(table.empty());
}

TEST(FlowTable, HasABound) {
  FlowTable table;
  for (uint64_t id = 1; id < FlowTable::kMaxRules; ++id) ASSERT_TRUE(table.add(entry(id, 1, to_mac(2))));
  ASSERT_TRUE(table.add(entry(FlowTable::kMaxRules, 1, {.type = FlowType::sniffer})));
  EXPECT_FALSE(table.add(entry(FlowTable::kMaxRules + 1, 1, to_mac(2))));
  EXPECT_FALSE(table.add(entry(FlowTable::kMaxRules + 1, 1, {.type = FlowType::sniffer})));
  table.remove(7);
  EXPECT_TRUE(table.add(entry(FlowTable::kMaxRules + 1, 1, to_mac(2))));
}

}  // namespace
}  // namespace uroce::transport
