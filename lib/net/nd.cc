// The IPv6 half of Neighbours: solicitations, advertisements (RFC 4861) and replies to pings.
#include "base/bytes.h"
#include "net/neighbours.h"
#include "wire/packet.h"

namespace uroce::net {

namespace {

constexpr uint8_t kIcmp6EchoRequest = 128;
constexpr uint8_t kIcmp6EchoReply = 129;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kOptionSource = 1;
constexpr uint8_t kOptionTarget = 2;
constexpr std::size_t kNdBytes = 24;
constexpr uint8_t kNdHopLimit = 255;
constexpr uint8_t kSolicited = 0x40;
constexpr uint8_t kOverride = 0x20;

struct Options {
  bool valid = false;
  std::optional<EthAddr> mac{};
};

/// RFC 4861, 4.6: an option of length 0 makes the whole packet invalid. So does an address that is no host's.
Options find_link_layer(std::span<const std::byte> options, uint8_t wanted) {
  Options out;
  while (!options.empty()) {
    if (options.size() < 8) return out;
    const std::size_t length = std::size_t{load8(&options[1])} * 8;
    if (length == 0 || length > options.size()) return out;
    if (load8(&options[0]) == wanted && length == 8) {
      EthAddr mac;
      std::memcpy(mac.bytes.data(), &options[2], 6);
      if (!is_of_one_host(mac)) return out;
      out.mac = mac;
    }
    options = options.subspan(length);
  }
  out.valid = true;
  return out;
}

Gid load_target(const IcmpView& icmp) {
  Gid target;
  std::memcpy(target.bytes.data(), &icmp.message[8], 16);
  return target;
}

}  // namespace

void Neighbours::on_icmpv6(const EtherView& ether, Nanos now) {
  bool malformed = false;
  const auto icmp = parse_icmpv6(ether.payload, malformed);
  if (!icmp) return malformed ? counters_.malformed.add() : counters_.not_for_us.add();
  const uint8_t type = load8(&icmp->message[0]);
  if (type == kNeighbourSolicitation || type == kAdvertisement) {
    // RFC 4861, 7.1: hop limit 255 proves that no router forwarded it.
    const bool valid =
        icmp->hop_limit == kNdHopLimit && load8(&icmp->message[1]) == 0 && icmp->message.size() >= kNdBytes;
    if (!valid) return counters_.malformed.add();
    const Gid target = load_target(*icmp);
    if (is_multicast(target) || target.is_ipv4()) return counters_.malformed.add();
    return type == kNeighbourSolicitation ? on_solicitation(*icmp, ether, now) : on_advertisement(*icmp, now);
  }
  const bool direct = ether.destination == mac_ && !is_multicast(icmp->source) && !is_unspecified(icmp->source);
  if (type != kIcmp6EchoRequest || load8(&icmp->message[1]) != 0 || !direct || !table_.ours(icmp->destination)) {
    return counters_.not_for_us.add();
  }
  std::vector<std::byte> message(icmp->message.begin(), icmp->message.end());
  store8(&message[0], kIcmp6EchoReply);
  counters_.echo_answered.add();
  send_ip(ether.source, kEtherIpv6, make_icmpv6(icmp->destination, icmp->source, 64, std::move(message)));
}

void Neighbours::on_solicitation(const IcmpView& icmp, const EtherView& ether, Nanos now) {
  const Gid target = load_target(icmp);
  const auto options = find_link_layer(icmp.message.subspan(kNdBytes), kOptionSource);
  const bool probe = is_unspecified(icmp.source);  // duplicate address detection
  // RFC 4861, 7.1.1: a probe goes to the solicited-node group and carries no source option.
  if (!options.valid || options.mac == mac_ || (probe && (options.mac || icmp.destination != solicited_node(target)))) {
    return counters_.malformed.add();
  }
  if (!table_.ours(target)) return counters_.not_for_us.add();
  if (table_.ours(icmp.source)) return on_conflict(icmp.source, ether.source, now);
  counters_.answered.add();
  if (probe) {
    Gid all_nodes;
    all_nodes.bytes = {0xff, 0x02};
    all_nodes.bytes[15] = 1;
    return send_advertisement(wire::multicast_mac(all_nodes), all_nodes, target, false);
  }
  if (options.mac) learn(icmp.source, *options.mac, true, now);
  send_advertisement(options.mac.value_or(ether.source), icmp.source, target, true);
}

void Neighbours::on_advertisement(const IcmpView& icmp, Nanos now) {
  const Gid target = load_target(icmp);
  const uint8_t flags = load8(&icmp.message[4]);
  const auto options = find_link_layer(icmp.message.subspan(kNdBytes), kOptionTarget);
  if (!options.valid || (is_multicast(icmp.destination) && (flags & kSolicited) != 0)) return counters_.malformed.add();
  if (options.mac && table_.ours(target)) {
    return *options.mac != mac_ ? on_conflict(target, *options.mac, now) : counters_.not_for_us.add();
  }
  const auto it = entries_.find(target);
  if (it == entries_.end() || !options.mac) return counters_.not_for_us.add();
  // RFC 4861, 7.2.5: without the override flag, an advertisement does not change a known Ethernet address.
  if (it->second.has_mac && it->second.mac != *options.mac && (flags & kOverride) == 0)
    return counters_.not_for_us.add();
  learn(target, *options.mac, false, now);
}

void Neighbours::send_advertisement(const EthAddr& to, const Gid& destination, const Gid& target, bool solicited) {
  std::vector<std::byte> message(32);
  store8(&message[0], kAdvertisement);
  store8(&message[4], static_cast<uint8_t>((solicited ? kSolicited : 0) | kOverride));
  std::memcpy(&message[8], target.bytes.data(), 16);
  store8(&message[24], kOptionTarget);
  store8(&message[25], 1);
  std::memcpy(&message[26], mac_.bytes.data(), 6);
  send_ip(to, kEtherIpv6, make_icmpv6(target, destination, kNdHopLimit, std::move(message)));
}

}  // namespace uroce::net
