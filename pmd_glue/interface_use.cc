#include "pmd_glue/interface_use.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <system_error>
#include <vector>

#include "netlink/dump.h"

namespace uroce::glue {

namespace {

namespace fs = std::filesystem;

using Address = std::vector<uint8_t>;  // 4 or 16 bytes, as on the wire

std::string name_of(uint32_t index) {
  char name[IF_NAMESIZE] = "";
  return if_indextoname(index, name) == nullptr ? "" : name;
}

int take_attribute(const nlattr* attribute, void* out) {
  auto& found = *static_cast<std::set<uint32_t>*>(out);
  const uint16_t type = mnl_attr_get_type(attribute);
  if (type == RTA_OIF && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0) found.insert(mnl_attr_get_u32(attribute));
  if (type != RTA_MULTIPATH) return MNL_CB_OK;
  const auto* at = static_cast<const std::byte*>(mnl_attr_get_payload(attribute));
  rtnexthop hop{};
  for (std::size_t left = mnl_attr_get_payload_len(attribute); left >= sizeof hop;) {
    std::memcpy(&hop, at, sizeof hop);
    const std::size_t length = MNL_ALIGN(std::size_t{hop.rtnh_len});
    if (hop.rtnh_len < sizeof hop || length > left) break;
    found.insert(static_cast<uint32_t>(hop.rtnh_ifindex));
    at += length;
    left -= length;
  }
  return MNL_CB_OK;
}

/// Takes the interfaces of a route, if it is a default route.
int take_route(const nlmsghdr* message, void* out) {
  if (message->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(message) < sizeof(rtmsg)) return MNL_CB_OK;
  const auto* route = static_cast<const rtmsg*>(mnl_nlmsg_get_payload(message));
  if (route->rtm_dst_len != 0 || route->rtm_type != RTN_UNICAST) return MNL_CB_OK;
  return mnl_attr_parse(message, sizeof(rtmsg), take_attribute, out);
}

/// The interfaces of default routes, in all tables.
std::set<uint32_t> default_routes(uint8_t family) {
  std::set<uint32_t> found;
  rtmsg asked{};
  asked.rtm_family = family;
  netlink::dump(NETLINK_ROUTE, RTM_GETROUTE, std::as_bytes(std::span(&asked, 1)), take_route, &found);
  return found;
}

/// An address as /proc/net/tcp prints it: each four bytes as one number of this machine.
Address from_hex(std::string_view text) {
  Address out;
  for (std::size_t at = 0; at + 8 <= text.size(); at += 8) {
    uint32_t word = 0;
    std::from_chars(text.data() + at, text.data() + at + 8, word, 16);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&word);
    out.insert(out.end(), bytes, bytes + sizeof word);
  }
  // An IPv4 connection of an IPv6 socket.
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (out.size() == 16 && std::equal(std::begin(kMapped), std::end(kMapped), out.begin()))
    out.erase(out.begin(), out.begin() + 12);
  return out;
}

/// The addresses of this machine in established TCP connections.
std::set<Address> connected_addresses() {
  std::set<Address> out;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string slot, local, remote, state;
      constexpr std::string_view kEstablished = "01";
      if (fields >> slot >> local >> remote >> state && state == kEstablished)
        out.insert(from_hex(local.substr(0, local.find(':'))));
    }
  }
  return out;
}

/// Adds each address of an interface to its use.
void add_addresses(InterfaceUses& uses) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  const std::set<Address> connected = connected_addresses();
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    const void* at = nullptr;
    if (family == AF_INET) at = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    if (family == AF_INET6) at = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    if (at == nullptr) continue;
    const auto* bytes = static_cast<const uint8_t*>(at);
    InterfaceUse& use = uses[one->ifa_name];
    use.connections |= connected.contains(Address(bytes, bytes + (family == AF_INET ? 4 : 16)));
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(static_cast<const in6_addr*>(at))) continue;
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, at, text, sizeof text);
    use.addresses += (use.addresses.empty() ? "" : ", ") + std::string(text);
  }
}

/// Names of the interfaces below a folder of sysfs: "net/eth0", and "virtio0/net/eth0".
void add_interfaces(const fs::path& folder, std::vector<std::string>& names) {
  std::error_code error;
  for (const auto& one : fs::directory_iterator(folder / "net", error)) names.push_back(one.path().filename());
}

std::vector<std::string> interfaces_on(const std::string& address, const fs::path& root) {
  std::vector<std::string> names;
  const fs::path folder = root / "bus/pci/devices" / address;
  add_interfaces(folder, names);
  std::error_code error;
  for (const auto& below : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (!below.is_symlink(ignored) && below.is_directory(ignored)) add_interfaces(below.path(), names);
  }
  std::ranges::sort(names);
  // Those that stand on one of them: "upper_br0".
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const auto& link : fs::directory_iterator(root / "class/net" / names[i], error)) {
      const std::string name = link.path().filename();
      constexpr std::string_view kUpper = "upper_";
      if (!name.starts_with(kUpper)) continue;
      const std::string upper = name.substr(kUpper.size());
      if (std::ranges::find(names, upper) == names.end()) names.push_back(upper);
    }
  }
  return names;
}

int rank(const InterfaceUse& use) {
  return use.default_route ? 3 : use.connections ? 2 : !use.addresses.empty() ? 1 : 0;
}

}  // namespace

std::string CardInterface::need() const {
  if (use.default_route) return "has the default route of this machine";
  if (use.connections) return "carries TCP connections of this machine, perhaps the one by which you are logged in";
  return "";
}

InterfaceUses read_interface_uses() {
  InterfaceUses uses;
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    for (const uint32_t index : default_routes(family)) {
      if (const std::string name = name_of(index); !name.empty()) uses[name].default_route = true;
    }
  }
  add_addresses(uses);
  return uses;
}

std::optional<CardInterface> interface_of_card(const std::string& address, const InterfaceUses& uses,
                                               const fs::path& root) {
  std::optional<CardInterface> out;
  for (const std::string& name : interfaces_on(address, root)) {
    const auto found = uses.find(name);
    const InterfaceUse use = found == uses.end() ? InterfaceUse{} : found->second;
    if (!out || rank(use) > rank(out->use)) out = CardInterface{name, use};
  }
  return out;
}

}  // namespace uroce::glue
