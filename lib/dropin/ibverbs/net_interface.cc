#include "dropin/ibverbs/net_interface.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>

#include <cstring>

#include "base/no_cancel.h"

namespace uroce::dropin {

namespace {

bool has_address(const ifaddrs& interface, const EthAddr& mac) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_PACKET) return false;
  sockaddr_ll link{};
  std::memcpy(&link, interface.ifa_addr, sizeof(link));
  return link.sll_halen == mac.bytes.size() && std::memcmp(link.sll_addr, mac.bytes.data(), mac.bytes.size()) == 0;
}

}  // namespace

uint32_t interface_index(const DeviceInfo& device) {
  const NoCancel guard;
  if (!device.kernel_interface.empty()) return if_nametoindex(device.kernel_interface.c_str());
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  uint32_t found = 0;
  for (const ifaddrs* each = all; each != nullptr && found == 0; each = each->ifa_next) {
    if (has_address(*each, device.mac)) found = if_nametoindex(each->ifa_name);
  }
  freeifaddrs(all);
  return found;
}

}  // namespace uroce::dropin
