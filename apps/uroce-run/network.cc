#include "network.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "gid.h"
#include "text.h"

namespace uroce::run {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::runtime_error("--netns: " + what + ": " + std::strerror(errno));
}

/// A socket whose only use is ioctl().
class Control {
 public:
  explicit Control(int family) : fd_(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) refuse("cannot create a socket");
  }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control() { close(fd_); }
  template <class Request>
  void call(unsigned long number, Request& request, const std::string& what) const {
    if (ioctl(fd_, number, &request) != 0) refuse("cannot " + what);
  }

 private:
  int fd_;
};

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

void bring_up(const std::string& interface) {
  ifreq request = request_for(interface);
  const Control control(AF_INET);
  control.call(SIOCGIFFLAGS, request, "read the flags of " + interface);
  request.ifr_flags |= IFF_UP;
  control.call(SIOCSIFFLAGS, request, "bring up " + interface);
}

void write_map(const char* file, unsigned id) {
  const std::string line = std::to_string(id) + " " + std::to_string(id) + " 1";
  const int fd = open(file, O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) close(fd);
  if (!written) refuse(std::string("cannot write ") + file);
}

/// /sys goes on showing the interfaces of the namespace that it was mounted in. A mount of our own shows ours. Without
/// the right to mount, as in some containers, programs do without /sys/class/net. In a chroot "/" may be no mount.
void show_own_interfaces_in_sys() {
  if (unshare(CLONE_NEWNS) != 0) return;
  constexpr unsigned long kOfOurOwn = MS_REC | MS_SLAVE;
  if (mount("none", "/", nullptr, kOfOurOwn, nullptr) != 0 && mount("none", "/sys", nullptr, kOfOurOwn, nullptr) != 0)
    return;
  static_cast<void>(mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr));
}

int make_tap(const std::string& name) {
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  ifreq request = request_for(name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) refuse("cannot make an interface with /dev/net/tun");
  return fd;
}

void set_mac(const std::string& interface, uint64_t guid) {
  ifreq request = request_for(interface);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  const auto mac = mac_of(guid);
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  Control(AF_INET).call(SIOCSIFHWADDR, request, "set the MAC address of " + interface);
}

void add_ipv4(const std::string& interface, const ibv_gid& gid, int alias) {
  // One interface has one address for these calls; labels give it more (netdevice(7)).
  const std::string label = alias == 0 ? interface : interface + ":" + std::to_string(alias);
  ifreq request = request_for(label);
  auto& address = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
  address.sin_family = AF_INET;
  std::memcpy(&address.sin_addr, gid.raw + 12, 4);
  const Control control(AF_INET);
  control.call(SIOCSIFADDR, request, "give an IPv4 address to " + interface);
  address.sin_addr.s_addr = htonl(0xffffff00);
  control.call(SIOCSIFNETMASK, request, "set the netmask of " + interface);
}

void add_ipv6(const std::string& interface, const ibv_gid& gid) {
  ifreq request = request_for(interface);
  const Control control(AF_INET6);
  control.call(SIOCGIFINDEX, request, "find " + interface);
  in6_ifreq address{};
  std::memcpy(&address.ifr6_addr, gid.raw, sizeof(address.ifr6_addr));
  address.ifr6_prefixlen = 64;
  address.ifr6_ifindex = request.ifr_ifindex;
  // The kernel has made the link-local address from the MAC.
  if (gid.raw[0] != 0xfe) control.call(SIOCSIFADDR, address, "give an IPv6 address to " + interface);
}

void configure(const DeviceView& device) {
  set_mac(device.name, device.guid);
  // Nobody else is there who could have the addresses.
  std::ofstream("/proc/sys/net/ipv6/conf/" + device.name + "/accept_dad") << 0;
  bring_up(device.name);
  int ipv4 = 0;
  for (const ibv_gid& gid : device.gids) {
    if (is_empty(gid)) continue;
    if (is_ipv4(gid)) {
      add_ipv4(device.name, gid, ipv4++);
    } else {
      add_ipv6(device.name, gid);
    }
  }
}

}  // namespace

void enter_network_namespace() {
  const unsigned uid = geteuid(), gid = getegid();
  if (unshare(CLONE_NEWNET) != 0) {
    if (errno != EPERM) refuse("cannot make a network namespace");
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      refuse(
          "cannot make a network namespace: this user may make no user namespaces, either; run uroce-run as root, or "
          "use the permanent interface in config/programs.md");
    }
    std::ofstream("/proc/self/setgroups") << "deny";
    write_map("/proc/self/uid_map", uid);
    write_map("/proc/self/gid_map", gid);
  }
  show_own_interfaces_in_sys();
  bring_up("lo");
}

Interfaces::Interfaces(const std::vector<DeviceView>& devices) {
  for (const DeviceView& device : devices) {
    taps_.push_back(make_tap(device.name));
    configure(device);
  }
}

Interfaces::~Interfaces() {
  for (const int fd : taps_) close(fd);
}

}  // namespace uroce::run
