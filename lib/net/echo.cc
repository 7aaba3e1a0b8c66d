#include "net/echo.h"

#include <utility>

#include "base/bytes.h"
#include "net/l2.h"
#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::net {

namespace {

constexpr uint8_t kEchoHopLimit = 64;
constexpr std::size_t kIpv4Header = 20, kIpv6Header = 40;

struct EchoTypes {
  uint8_t request, reply;
};

EchoTypes echo_types_of(const Gid& gid) { return gid.is_ipv4() ? EchoTypes{8, 0} : EchoTypes{128, 129}; }
std::size_t ip_header_of(const Gid& gid) { return gid.is_ipv4() ? kIpv4Header : kIpv6Header; }

std::optional<IpView> parse_ip(const EtherView& ether) {
  bool malformed = false;
  if (ether.type == kEtherIpv4) return parse_ipv4(ether.payload, malformed);
  if (ether.type == kEtherIpv6) return parse_ipv6(ether.payload, malformed);
  return std::nullopt;
}

}  // namespace

std::optional<EchoRoute> route_of(std::span<const std::byte> frame, const Gid& from, const Gid& to) {
  const auto ether = parse_ether(frame);
  if (!ether) return std::nullopt;
  const auto ip = parse_ip(*ether);
  if (!ip || ip->source != from || ip->destination != to || ip->protocol != wire::kProtocolUdp) return std::nullopt;
  if (ip->payload.size() < 8 || load_be16(&ip->payload[2]) != wire::kUdpPort) return std::nullopt;
  return EchoRoute{
      .device = ether->source, .next_hop = ether->destination, .vlan = ether->vlan.value_or(0), .from = from, .to = to};
}

std::vector<std::byte> make_echo(const EchoRoute& route, uint16_t id, uint16_t sequence, uint32_t bytes) {
  std::vector<std::byte> message(bytes - ip_header_of(route.to));
  store8(&message[0], echo_types_of(route.to).request);
  store_be16(&message[4], id);
  store_be16(&message[6], sequence);
  const bool v4 = route.to.is_ipv4();
  const auto packet = v4 ? make_icmpv4(route.from, route.to, std::move(message), Fragments::forbidden)
                         : make_icmpv6(route.from, route.to, kEchoHopLimit, std::move(message));
  return make_ether(route.next_hop, route.device, route.vlan, v4 ? kEtherIpv4 : kEtherIpv6, packet);
}

bool answers_echo(std::span<const std::byte> frame, const EchoRoute& route, uint16_t id, uint16_t sequence,
                  uint32_t bytes) {
  const auto ether = parse_ether(frame);
  if (!ether || ether->type != (route.to.is_ipv4() ? kEtherIpv4 : kEtherIpv6)) return false;
  bool malformed = false;
  const auto icmp =
      route.to.is_ipv4() ? parse_icmpv4(ether->payload, malformed) : parse_icmpv6(ether->payload, malformed);
  if (!icmp || icmp->source != route.to || icmp->destination != route.from) return false;
  return icmp->message.size() == bytes - ip_header_of(route.to) &&
         load8(&icmp->message[0]) == echo_types_of(route.to).reply && load_be16(&icmp->message[4]) == id &&
         load_be16(&icmp->message[6]) == sequence;
}

}  // namespace uroce::net
