// The ARP half of Neighbours, and replies to IPv4 pings.
#include <array>

#include "base/bytes.h"
#include "net/neighbours.h"
#include "wire/load_mac.h"
#include "wire/packet.h"

namespace uroce::net {

namespace {

constexpr std::size_t kArpBytes = 28;
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;
constexpr uint8_t kEchoReply = 0;
constexpr uint8_t kEchoRequest = 8;

}  // namespace

void Neighbours::on_arp(const EtherView& ether, Nanos now) {
  if (ether.payload.size() < kArpBytes) return counters_.malformed.add();
  const std::byte* p = ether.payload.data();
  const bool ethernet_ipv4 =
      load_be16(p) == 1 && load_be16(p + 2) == kEtherIpv4 && load8(p + 4) == 6 && load8(p + 5) == 4;
  const uint16_t operation = load_be16(p + 6);
  if (!ethernet_ipv4 || (operation != kRequest && operation != kReply)) return counters_.malformed.add();
  const EthAddr sender_mac = wire::load_mac(p + 8);
  const Gid sender = Gid::from_ipv4(load_be32(p + 14));
  const Gid target = Gid::from_ipv4(load_be32(p + 24));
  // An answer goes to the sender's address: it must be neither many hosts nor this one.
  if (is_multicast(sender) || !is_of_one_host(sender_mac) || sender_mac == mac_) return counters_.malformed.add();

  if (table_.ours(sender)) return on_conflict(sender, sender_mac, now);

  const bool to_us = table_.ours(target);
  // A packet between other hosts only updates entries that exist (RFC 826: Merge_flag). A probe has no sender address
  // (RFC 5227, 2.1.1), and our own address is never learned.
  if (!is_unspecified(sender)) {
    const bool known = state(sender) != NeighbourState::unknown;
    if (to_us || known) learn(sender, sender_mac, to_us && operation == kRequest, now);
  }
  if (!to_us) return counters_.not_for_us.add();
  if (operation != kRequest) return;
  counters_.answered.add();
  send_arp(kReply, sender_mac, target, sender_mac, sender);
}

void Neighbours::on_icmpv4(const EtherView& ether) {
  bool malformed = false;
  const auto icmp = parse_icmpv4(ether.payload, malformed);
  if (!icmp) return malformed ? counters_.malformed.add() : counters_.not_for_us.add();
  const bool echo = load8(&icmp->message[0]) == kEchoRequest && load8(&icmp->message[1]) == 0;
  // RFC 1122, 3.2.2: send no reply to a packet to or from a broadcast or multicast address.
  const bool direct = ether.destination == mac_ && !is_multicast(icmp->source) && !is_unspecified(icmp->source);
  if (!echo || !direct || !table_.ours(icmp->destination)) return counters_.not_for_us.add();
  std::vector<std::byte> message(icmp->message.begin(), icmp->message.end());
  store8(&message[0], kEchoReply);
  counters_.echo_answered.add();
  send_ip(ether.source, kEtherIpv4, make_icmpv4(icmp->destination, icmp->source, std::move(message)));
}

void Neighbours::send_arp(uint16_t operation, const EthAddr& to, const Gid& sender, const EthAddr& target_mac,
                          const Gid& target) {
  std::array<std::byte, kArpBytes> arp{};
  std::byte* p = arp.data();
  store_be16(p, 1);
  store_be16(p + 2, kEtherIpv4);
  store8(p + 4, 6);
  store8(p + 5, 4);
  store_be16(p + 6, operation);
  std::memcpy(p + 8, mac_.bytes.data(), 6);
  store_be32(p + 14, sender.ipv4());
  std::memcpy(p + 18, target_mac.bytes.data(), 6);
  store_be32(p + 24, target.ipv4());
  send_ip(to, kEtherArp, arp);
}

void Neighbours::send_request(const Gid& neighbour, const EthAddr* at) {
  const auto source = table_.source_for(neighbour);
  if (!source) return;  // no address of that family: next_hop() has refused the route, or the entry times out
  counters_.requests_sent.add();
  if (neighbour.is_ipv4()) {
    return send_arp(kRequest, at != nullptr ? *at : kBroadcastMac, *source, EthAddr{}, neighbour);
  }
  std::vector<std::byte> message(32);
  store8(&message[0], kNeighbourSolicitation);
  std::memcpy(&message[8], neighbour.bytes.data(), 16);
  store8(&message[24], 1);  // option: source link-layer address, in units of 8 bytes
  store8(&message[25], 1);
  std::memcpy(&message[26], mac_.bytes.data(), 6);
  const Gid to = at != nullptr ? neighbour : solicited_node(neighbour);
  const EthAddr mac = at != nullptr ? *at : wire::multicast_mac(to);
  send_ip(mac, kEtherIpv6, make_icmpv6(*source, to, 255, std::move(message)));
}

void Neighbours::send_announcement(const Gid& ours) {
  // RFC 5227, 3: an announcement is a request.
  if (ours.is_ipv4()) return send_arp(kRequest, kBroadcastMac, ours, EthAddr{}, ours);
  Gid all_nodes;
  all_nodes.bytes = {0xff, 0x02};
  all_nodes.bytes[15] = 1;
  send_advertisement(wire::multicast_mac(all_nodes), all_nodes, ours, false);
}

// Duplicate address detection (RFC 5227, 2.1.1; RFC 4862, 5.4.2). The source is unspecified, so that another owner of
// the address answers, but no host learns the address from the probe.
void Neighbours::send_probe(const Gid& ours) {
  if (ours.is_ipv4()) return send_arp(kRequest, kBroadcastMac, Gid::from_ipv4(0), EthAddr{}, ours);
  std::vector<std::byte> message(24);
  store8(&message[0], kNeighbourSolicitation);
  std::memcpy(&message[8], ours.bytes.data(), 16);
  const Gid group = solicited_node(ours);
  send_ip(wire::multicast_mac(group), kEtherIpv6, make_icmpv6(Gid{}, group, 255, std::move(message)));
}

}  // namespace uroce::net
