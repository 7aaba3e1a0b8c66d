#include "transport/datagram/flow_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/bytes.h"

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

/// Those of `takers` that get a frame.
std::vector<uint32_t> receivers(const FlowTable& table, std::span<const std::byte> frame,
                                FrameTakers takers = FrameTakers::all) {
  std::vector<uint32_t> out;
  const bool taken = table.distribute(frame, takers, [&out](const FlowEntry&, uint32_t qpn) { out.push_back(qpn); });
  EXPECT_EQ(taken, takers != FrameTakers::sniffers && table.match(frame) != 0);
  return out;
}

/// IPv4 from 10.0.0.`host`.
std::vector<std::byte> frame_from(uint8_t host) {
  std::vector<std::byte> frame(60);
  store_be16(&frame[12], 0x0800);
  store8(&frame[14], 0x45);
  store8(&frame[23], 50);
  store_be32(&frame[26], 0x0a000000u + host);
  return frame;
}

IndirectionTable spread_over(std::vector<uint32_t> qpns) {
  IndirectionTable table{.hash = {.fields = RxHashField::ipv4_source}, .qpns = std::move(qpns)};
  // Bits 31 and 30 of the address, its last, add bits 31 to 62 and 30 to 61 of the key: they are bits 1 and 0 of the
  // hash.
  table.hash.key[7] = 0x04;
  return table;
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
  EXPECT_EQ(receivers(table, frame_to(2)), std::vector<uint32_t>{0x11});
  ASSERT_TRUE(table.add(entry(2, 0x12, {.type = FlowType::all_default})));
  EXPECT_EQ(receivers(table, frame_to(2)), (std::vector<uint32_t>{0x11, 0x12}));
  EXPECT_EQ(receivers(table, frame_to(2), FrameTakers::rule), std::vector<uint32_t>{0x12});
  EXPECT_EQ(receivers(table, frame_to(2), FrameTakers::sniffers), std::vector<uint32_t>{0x11});
  table.remove(2);
  table.remove(1);
  EXPECT_TRUE(table.empty());
}

TEST(FlowTable, AHashPicksTheReceiver) {
  FlowTable table;
  FlowEntry rule = entry(1, 0x11, {.type = FlowType::all_default});
  rule.table = std::make_shared<IndirectionTable>(spread_over({0x11, 0x12, 0x13, 0x12}));
  ASSERT_TRUE(table.add(rule));
  EXPECT_EQ(table.match(frame_from(0)), 0x11u);
  EXPECT_EQ(table.match(frame_from(1)), 0x13u);
  EXPECT_EQ(table.match(frame_from(2)), 0x12u);
  EXPECT_EQ(table.match(frame_from(3)), 0x12u);
  EXPECT_EQ(table.match(frame_from(4)), 0x11u);
  EXPECT_EQ(table.match(frame_to(2)), 0x11u) << "without an address";
}

TEST(FlowTable, SniffersSpreadTheirCopies) {
  FlowTable table;
  FlowEntry sniffer = entry(1, 0x11, {.type = FlowType::sniffer});
  sniffer.table = std::make_shared<IndirectionTable>(spread_over({0x11, 0x12}));
  ASSERT_TRUE(table.add(sniffer));
  EXPECT_EQ(receivers(table, frame_from(1)), std::vector<uint32_t>{0x11}) << "2 modulo 2";
  EXPECT_EQ(receivers(table, frame_from(2)), std::vector<uint32_t>{0x12});
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
