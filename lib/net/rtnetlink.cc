#include "net/rtnetlink.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace uroce::net {

namespace {

constexpr std::size_t kMacBytes = 6;
constexpr std::size_t kRequestBytes = 256;  // more than any request here

std::size_t address_bytes(uint8_t family) { return family == AF_INET ? 4 : 16; }

bool is_ip(uint8_t family) { return family == AF_INET || family == AF_INET6; }

std::span<const std::byte> payload_of(const nlattr* attribute) {
  return {static_cast<const std::byte*>(mnl_attr_get_payload(attribute)), mnl_attr_get_payload_len(attribute)};
}

std::optional<Gid> gid_of(uint8_t family, std::span<const std::byte> bytes) {
  if (!is_ip(family) || bytes.size() != address_bytes(family)) return std::nullopt;
  Gid gid;
  if (family == AF_INET) gid = Gid::from_ipv4(0);
  std::memcpy(gid.bytes.data() + gid.bytes.size() - bytes.size(), bytes.data(), bytes.size());
  return gid;
}

std::optional<uint32_t> number_of(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  if (bytes.size() != sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::optional<EthAddr> mac_of(std::span<const std::byte> bytes) {
  EthAddr mac;
  if (bytes.size() != kMacBytes) return std::nullopt;
  std::memcpy(mac.bytes.data(), bytes.data(), kMacBytes);
  return mac;
}

/// The fixed part of a message, copied; nullopt when the message is shorter.
template <class Header>
std::optional<Header> header_of(const nlmsghdr* message) {
  Header header;
  if (mnl_nlmsg_get_payload_len(message) < sizeof header) return std::nullopt;
  std::memcpy(&header, mnl_nlmsg_get_payload(message), sizeof header);
  return header;
}

/// Calls `take(type, bytes)` for each attribute behind a header. False when one does not fit.
template <class Header, class Take>
bool each_attribute(const nlmsghdr* message, Take&& take) {
  const auto* at = static_cast<const std::byte*>(mnl_nlmsg_get_payload_offset(message, sizeof(Header)));
  const auto* end = reinterpret_cast<const std::byte*>(message) + message->nlmsg_len;
  while (end - at >= static_cast<std::ptrdiff_t>(MNL_ATTR_HDRLEN)) {
    const auto* attribute = reinterpret_cast<const nlattr*>(at);
    const std::size_t length = mnl_attr_get_len(attribute);
    if (length < MNL_ATTR_HDRLEN || length > static_cast<std::size_t>(end - at)) return false;
    take(mnl_attr_get_type(attribute), payload_of(attribute));
    at += std::min<std::size_t>(MNL_ALIGN(length), static_cast<std::size_t>(end - at));
  }
  return true;
}

using News = decltype(KernelMessage::news);

/// nullopt: malformed. An empty inner optional: it concerns no one here.
using Parsed = std::optional<std::optional<News>>;

Parsed nothing() { return std::optional<News>(); }

Parsed parse_address(const nlmsghdr* message) {
  const auto header = header_of<ifaddrmsg>(message);
  if (!header) return std::nullopt;
  if (!is_ip(header->ifa_family)) return nothing();
  AddressNews news{
      .interface = header->ifa_index, .flags = header->ifa_flags, .removed = message->nlmsg_type == RTM_DELADDR};
  std::optional<Gid> local, address;
  const bool whole = each_attribute<ifaddrmsg>(message, [&](uint16_t type, std::span<const std::byte> bytes) {
    // On a point-to-point link IFA_ADDRESS is the other end's.
    if (type == IFA_LOCAL) local = gid_of(header->ifa_family, bytes);
    if (type == IFA_ADDRESS) address = gid_of(header->ifa_family, bytes);
    if (type == IFA_FLAGS) news.flags = number_of(bytes).value_or(news.flags);
  });
  if (!local) local = address;
  if (!whole || !local || header->ifa_prefixlen > 8 * address_bytes(header->ifa_family)) return std::nullopt;
  news.address = {*local, header->ifa_prefixlen};
  return news;
}

Parsed parse_neighbour(const nlmsghdr* message) {
  const auto header = header_of<ndmsg>(message);
  if (!header) return std::nullopt;
  if (!is_ip(header->ndm_family) || (header->ndm_flags & NTF_PROXY) != 0) return nothing();
  NeighbourNews news{.interface = static_cast<uint32_t>(header->ndm_ifindex),
                     .state = header->ndm_state,
                     .removed = message->nlmsg_type == RTM_DELNEIGH};
  std::optional<Gid> gid;
  const bool whole = each_attribute<ndmsg>(message, [&](uint16_t type, std::span<const std::byte> bytes) {
    if (type == NDA_DST) gid = gid_of(header->ndm_family, bytes);
    if (type == NDA_LLADDR) news.mac = mac_of(bytes);
  });
  if (!whole || !gid) return std::nullopt;
  news.gid = *gid;
  return news;
}

Parsed parse_link(const nlmsghdr* message) {
  const auto header = header_of<ifinfomsg>(message);
  if (!header) return std::nullopt;
  // A bridge's ports have messages of their own, also when one leaves the bridge.
  if (header->ifi_family != AF_UNSPEC) return nothing();
  LinkNews news{.interface = static_cast<uint32_t>(header->ifi_index)};
  const bool whole = each_attribute<ifinfomsg>(message, [&](uint16_t type, std::span<const std::byte> bytes) {
    if (type == IFLA_ADDRESS) news.mac = mac_of(bytes);
    if (type == IFLA_MTU) news.mtu = number_of(bytes);
  });
  if (!whole) return std::nullopt;
  return news;
}

std::optional<Gid> via_of(std::span<const std::byte> bytes) {
  uint16_t family = 0;
  if (bytes.size() < sizeof family) return std::nullopt;
  std::memcpy(&family, bytes.data(), sizeof family);
  return gid_of(static_cast<uint8_t>(family), bytes.subspan(sizeof family));
}

Parsed parse_route(const nlmsghdr* message) {
  const auto header = header_of<rtmsg>(message);
  if (!header) return std::nullopt;
  if (!is_ip(header->rtm_family)) return nothing();
  RouteNews news{.type = header->rtm_type};
  const bool whole = each_attribute<rtmsg>(message, [&](uint16_t type, std::span<const std::byte> bytes) {
    if (type == RTA_GATEWAY) news.gateway = gid_of(header->rtm_family, bytes);
    if (type == RTA_VIA) news.gateway = via_of(bytes);
    if (type == RTA_PREFSRC) news.source = gid_of(header->rtm_family, bytes);
    if (type == RTA_OIF) news.interface = number_of(bytes).value_or(0);
    if (type == RTA_ENCAP) news.encapsulated = true;
  });
  if (!whole) return std::nullopt;
  return news;
}

Parsed parse_end(const nlmsghdr* message) {
  // A failed dump ends with its error as well.
  const auto code = header_of<int32_t>(message);
  if (!code && message->nlmsg_type == NLMSG_ERROR) return std::nullopt;
  return AnswerEnd{.error = code.value_or(0) < 0 ? -*code : 0};
}

Parsed parse(const nlmsghdr* message) {
  switch (message->nlmsg_type) {
    case RTM_NEWADDR:
    case RTM_DELADDR: return parse_address(message);
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH: return parse_neighbour(message);
    case RTM_NEWLINK: return parse_link(message);
    case RTM_NEWROUTE: return parse_route(message);
    case RTM_DELROUTE:
    case RTM_NEWRULE:
    case RTM_DELRULE:
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP: return RoutingChange{};
    case NLMSG_DONE:
    case NLMSG_ERROR: return parse_end(message);
    default: return nothing();
  }
}

/// A request under construction.
class Request {
 public:
  Request(uint16_t type, uint16_t flags, uint32_t sequence) : message_(mnl_nlmsg_put_header(bytes_.data())) {
    message_->nlmsg_type = type;
    message_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    message_->nlmsg_seq = sequence;
  }
  template <class Header>
  Header& put() {
    return *static_cast<Header*>(mnl_nlmsg_put_extra_header(message_, sizeof(Header)));
  }
  nlmsghdr* message() { return message_; }
  std::vector<std::byte> bytes() const {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes_.data());
    return {begin, begin + message_->nlmsg_len};
  }

 private:
  alignas(nlmsghdr) std::array<std::byte, kRequestBytes> bytes_{};
  nlmsghdr* message_;
};

}  // namespace

bool parse_rtnetlink(std::span<const std::byte> datagram, const std::function<void(const KernelMessage&)>& take) {
  // mnl_nlmsg_ok() takes a length of 2 GiB or more for a negative one, which fits.
  for (auto left = datagram; !left.empty();) {
    const auto* at = reinterpret_cast<const nlmsghdr*>(left.data());
    if (left.size() < sizeof *at || at->nlmsg_len < sizeof *at || at->nlmsg_len > left.size()) return false;
    left = left.subspan(std::min<std::size_t>(MNL_ALIGN(std::size_t{at->nlmsg_len}), left.size()));
    const Parsed parsed = parse(at);
    if (!parsed) return false;
    if (!*parsed) continue;
    take({.sequence = at->nlmsg_seq, .interrupted = (at->nlmsg_flags & NLM_F_DUMP_INTR) != 0, .news = **parsed});
  }
  return true;
}

std::vector<std::byte> ask_table(KernelTable table, uint32_t interface, uint32_t sequence) {
  if (table == KernelTable::addresses) {
    Request request(RTM_GETADDR, NLM_F_DUMP, sequence);
    request.put<ifaddrmsg>().ifa_family = AF_UNSPEC;
    return request.bytes();
  }
  Request request(RTM_GETNEIGH, NLM_F_DUMP, sequence);
  request.put<ndmsg>().ndm_family = AF_UNSPEC;
  mnl_attr_put_u32(request.message(), NDA_IFINDEX, interface);
  return request.bytes();
}

std::vector<std::byte> ask_route(const Gid& dgid, uint32_t interface, uint32_t sequence, bool entry) {
  Request request(RTM_GETROUTE, 0, sequence);
  auto& header = request.put<rtmsg>();
  const bool ipv4 = dgid.is_ipv4();
  header.rtm_family = ipv4 ? AF_INET : AF_INET6;
  const std::size_t size = address_bytes(header.rtm_family);
  header.rtm_dst_len = static_cast<uint8_t>(8 * size);
  if (entry) header.rtm_flags = RTM_F_FIB_MATCH;
  mnl_attr_put(request.message(), RTA_DST, size, dgid.bytes.data() + dgid.bytes.size() - size);
  mnl_attr_put_u32(request.message(), RTA_OIF, interface);
  return request.bytes();
}

}  // namespace uroce::net
