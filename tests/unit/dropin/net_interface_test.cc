#include "dropin/ibverbs/net_interface.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>

#include <cstring>

namespace uroce::dropin {
namespace {

TEST(NetInterface, IsTheOneWhoseAddressesTheDeviceHas) {
  DeviceInfo device;
  device.kernel_interface = "lo";
  EXPECT_EQ(interface_index(device), if_nametoindex("lo"));
  device.kernel_interface = "no such";
  EXPECT_EQ(interface_index(device), 0u);
}

TEST(NetInterface, HasTheDevicesEthernetAddress) {
  DeviceInfo device;
  device.mac = {{0x02, 0xff, 0xee, 0xdd, 0xcc, 0xbb}};
  EXPECT_EQ(interface_index(device), 0u);

  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_PACKET) continue;
    sockaddr_ll link{};
    std::memcpy(&link, each->ifa_addr, sizeof(link));
    if (link.sll_halen != 6) continue;
    std::memcpy(device.mac.bytes.data(), link.sll_addr, 6);
    const uint32_t found = interface_index(device);
    char name[IF_NAMESIZE] = {};
    EXPECT_NE(found, 0u) << each->ifa_name;
    EXPECT_NE(if_indextoname(found, name), nullptr);
  }
  freeifaddrs(all);
}

}  // namespace
}  // namespace uroce::dropin
