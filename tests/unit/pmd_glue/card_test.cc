#include "pmd_glue/card.h"

#include <gtest/gtest.h>

namespace uroce::glue {
namespace {

/// As DPDK 22.11's drivers fill it in.
rte_eth_dev_info driver(const char* name, uint32_t longest_frame, uint16_t largest_mtu) {
  rte_eth_dev_info info{};
  info.driver_name = name;
  info.max_rx_pktlen = longest_frame;
  info.max_mtu = largest_mtu;
  return info;
}

TEST(Card, CountsTheDriversOwnHeader) {
  EXPECT_EQ(frame_overhead(driver("net_virtio", 9728, 9698)), 30u);
  EXPECT_EQ(frame_overhead(driver("net_ixgbe", 15872, 15854)), 26u) << "room for two VLAN tags";
  EXPECT_EQ(frame_overhead(driver("net_e1000_em", 16128, UINT16_MAX)), 26u) << "says no MTU";
  EXPECT_EQ(frame_overhead(driver("net_virtio", 9728, 4200)), 64u) << "the host's MTU beside its own longest frame";
}

TEST(Card, BufferHoldsAFrameWithTheDriversHeader) {
  // net_virtio refuses a queue whose buffers are shorter than MTU + 30.
  for (uint32_t mtu = 1400; mtu <= 9216; ++mtu) EXPECT_GE(buffer_room(driver("net_virtio", 9728, 9698), mtu), mtu + 30);
  EXPECT_EQ(buffer_room(driver("net_virtio", 9728, 4200), 4200), 5120u);
  EXPECT_EQ(buffer_room(driver("net_ixgbe", 15872, 15854), 1500), 2048u);
  EXPECT_EQ(buffer_room(driver("net_e1000_em", 16128, UINT16_MAX), 4200), 8192u) << "the chip uses powers of two";
  auto large = driver("net_x", 9728, 9698);
  large.min_rx_bufsize = 3000;
  EXPECT_EQ(buffer_room(large, 1500), 3072u);
}

TEST(Card, MtuIsWithinBothLimits) {
  EXPECT_EQ(largest_mtu(driver("net_e1000_em", 16128, UINT16_MAX)), 16110u);
  EXPECT_EQ(largest_mtu(driver("net_vmxnet3", 16384, 9190)), 9190u);
  EXPECT_EQ(largest_mtu(driver("net_x", 0, 1500)), 0u);
}

TEST(Card, DriversWithoutABusAreNoCards) { EXPECT_FALSE(is_card(driver("net_x", 1518, 1500))); }

}  // namespace
}  // namespace uroce::glue
