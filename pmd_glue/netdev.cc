#include "pmd_glue/netdev.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::glue {

namespace {

constexpr short kRunning = IFF_UP | IFF_RUNNING;

Result<void> ask(const std::string& interface, unsigned long request, ifreq& r) {
  if (interface.size() >= IFNAMSIZ)
    return fail(ENODEV, fmt::format("'{}' is too long for an interface name", interface));
  interface.copy(r.ifr_name, IFNAMSIZ - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno, std::strerror(errno));
  const int result = ioctl(fd, request, &r);
  const int error = errno;
  close(fd);
  if (result < 0) return fail(error, std::strerror(error));
  return {};
}

std::optional<short> flags_of(const std::string& interface) {
  ifreq r{};
  if (!ask(interface, SIOCGIFFLAGS, r)) return std::nullopt;
  return r.ifr_flags;
}

void ask_for_link(const std::string& interface) {
  ethtool_value link{};
  link.cmd = ETHTOOL_GLINK;
  ifreq r{};
  r.ifr_data = reinterpret_cast<char*>(&link);
  (void)ask(interface, SIOCETHTOOL, r);
}

}  // namespace

Result<uint32_t> netdev_mtu(const std::string& interface) {
  ifreq r{};
  if (auto ok = ask(interface, SIOCGIFMTU, r); !ok) return std::unexpected(ok.error());
  return static_cast<uint32_t>(r.ifr_mtu);
}

Result<EthAddr> netdev_mac(const std::string& interface) {
  ifreq r{};
  if (auto ok = ask(interface, SIOCGIFHWADDR, r); !ok) return std::unexpected(ok.error());
  // The loopback interface has Ethernet frames, too.
  if (r.ifr_hwaddr.sa_family != ARPHRD_ETHER && r.ifr_hwaddr.sa_family != ARPHRD_LOOPBACK)
    return fail(EINVAL, "its frames are not Ethernet's");
  EthAddr mac;
  std::memcpy(mac.bytes.data(), r.ifr_hwaddr.sa_data, mac.bytes.size());
  return mac;
}

std::string netdev_name(unsigned index) {
  char name[IF_NAMESIZE] = "";
  return index != 0 && if_indextoname(index, name) != nullptr ? name : "";
}

Result<void> set_netdev_mtu(const std::string& interface, uint32_t mtu) {
  ifreq r{};
  r.ifr_mtu = static_cast<int>(mtu);
  return ask(interface, SIOCSIFMTU, r);
}

std::optional<bool> netdev_running(const std::string& interface) {
  auto flags = flags_of(interface);
  // The kernel handles news of a carrier up to a second late. Until then the flags are old, and it drops what is sent.
  // A question about the link makes it handle them at once.
  if (flags && (*flags & kRunning) == IFF_UP) {
    ask_for_link(interface);
    flags = flags_of(interface);
  }
  if (!flags) return std::nullopt;
  return (*flags & kRunning) == kRunning;
}

bool netdev_is_loopback(const std::string& interface) {
  ifreq r{};
  return ask(interface, SIOCGIFFLAGS, r) && (r.ifr_flags & IFF_LOOPBACK) != 0;
}

NetdevQueues netdev_queues(const std::string& interface) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq r{};
  r.ifr_data = reinterpret_cast<char*>(&channels);
  if (!ask(interface, SIOCETHTOOL, r)) return {};
  return {std::max(1u, channels.combined_count), std::max(1u, channels.combined_count + channels.rx_count)};
}

Result<int> receive_all_multicast(const std::string& interface) {
  packet_mreq membership{};
  membership.mr_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  membership.mr_type = PACKET_MR_ALLMULTI;
  if (membership.mr_ifindex == 0) return fail(ENODEV, fmt::format("unknown interface '{}'", interface));
  // Protocol 0: the socket receives no frame.
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(errno, std::strerror(errno));
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) == 0) return fd;
  const int error = errno;
  close(fd);
  return fail(error, std::strerror(error));
}

}  // namespace uroce::glue
