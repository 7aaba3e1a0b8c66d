// ARP, neighbour discovery, pings, IGMP and MLD against hostile neighbours. The input is a program: frames that are
// nearly right, time steps, calls. For any input a frame has at most one answer, hardly larger than itself and of its
// own family; no neighbour has an address that belongs to nobody or to many; deadlines lie ahead.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/bytes.h"
#include "net/memberships.h"
#include "net/neighbours.h"
#include "tests/fuzz/input.h"
#include "wire/packet.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr EthAddr kMac{{0x02, 0, 0, 0, 0, 1}};
constexpr std::size_t kMtu = 1500;
/// An advertisement may be longer than its solicitation by the option with our Ethernet address.
constexpr std::size_t kLargestGrowth = 8;

Gid ipv6(uint8_t scope, uint8_t last) {
  Gid gid;
  gid.bytes = {static_cast<uint8_t>(scope == 0 ? 0 : 0xfe), static_cast<uint8_t>(scope == 0 ? 0 : 0x80)};
  gid.bytes[15] = last;
  return gid;
}

Gid group6(uint8_t last) {
  Gid gid;
  gid.bytes = {0xff, 0x02};
  gid.bytes[15] = last;
  return gid;
}

class Program {
 public:
  explicit Program(std::span<const uint8_t> bytes)
      : in_(bytes),
        vlan_((in_.take<uint8_t>() & 3) == 0 ? 5 : 0),
        neighbours_(kMac, vlan_, addresses(0), [this](auto frame) { sent(frame); }),
        memberships_(kMac, vlan_, kMtu, 1, [this](auto frame) { sent(frame); }) {
    memberships_.set_addresses(neighbours_.table().gids(), now_);
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 400; ++steps) {
      step();
      check_tables();
    }
    end();
  }

 private:
  net::AddressTable addresses(uint32_t set) {
    std::vector<net::InterfaceAddress> own;
    if (set != 1) own.push_back({Gid::from_ipv4(0x0a000001), 24});
    if (set != 2) own.push_back({ipv6(1, 1), 64});
    if (set == 3) own.push_back({Gid::from_ipv4(0x0a000002), 24});
    return {own, {Gid::from_ipv4(0x0a0000fe), ipv6(1, 0xfe)}};
  }

  /// Addresses that matter: ours, neighbours, groups, and those that no frame should carry.
  Gid any_gid(bool ipv4) {
    const auto which = in_.take<uint8_t>();
    const auto last = static_cast<uint8_t>(which & 7);
    switch (which >> 4) {
      case 0: return ipv4 ? Gid::from_ipv4(0) : Gid{};
      case 1: return ipv4 ? Gid::from_ipv4(0xe0000001) : group6(1);
      case 2: return ipv4 ? Gid::from_ipv4(0xe1000000 + last) : group6(last);
      case 3: return ipv4 ? Gid::from_ipv4(0xffffffff) : net::solicited_node(ipv6(1, last));
      case 4: return ipv4 ? Gid::from_ipv4(0x7f000001) : ipv6(0, 1);
      case 5: return Gid::from_ipv4(0x0a000000 + last);  // mapped into IPv6 where it does not belong
      case 6: return Gid::from_ipv4(0xe1000000 + last);
      case 7: return ipv4 ? Gid::from_ipv4(0x0a0000fe) : ipv6(1, 0xfe);
      default: return ipv4 ? Gid::from_ipv4(0x0a000000 + last) : ipv6(1, last);
    }
  }
  EthAddr any_mac() {
    const auto which = in_.take<uint8_t>();
    switch (which & 15) {
      case 0: return net::kBroadcastMac;
      case 1: return EthAddr{};
      case 2: return kMac;
      case 3: return wire::multicast_mac(group6(1));
      default: return EthAddr{{0x02, 0, 0, 0, 1, which}};
    }
  }
  Gid any_group() { return (in_.take<uint8_t>() & 1) != 0 ? any_of(true) : any_of(false); }
  Gid any_of(bool ipv4) {
    const auto last = static_cast<uint8_t>(in_.take<uint8_t>() & 15);
    return ipv4 ? Gid::from_ipv4(0xe0000000 + (last < 2 ? last : 0x01000000u + last)) : group6(last);
  }

  /// Bytes of the input over a message, and at times another length.
  void disturb(std::vector<std::byte>& message) {
    const auto how = in_.take<uint8_t>();
    for (uint32_t edits = how & 3u; edits > 0 && !message.empty(); --edits) {
      message[in_.below(static_cast<uint32_t>(message.size()))] = in_.take<std::byte>();
    }
    if ((how & 0xf0) == 0) message.resize(in_.below(static_cast<uint32_t>(message.size()) + 64));
  }

  std::vector<std::byte> arp() {
    std::vector<std::byte> p(28);
    store_be16(&p[0], 1);
    store_be16(&p[2], net::kEtherIpv4);
    store8(&p[4], 6);
    store8(&p[5], 4);
    store_be16(&p[6], static_cast<uint16_t>(1 + (in_.take<uint8_t>() & 1)));
    const EthAddr sender = any_mac();
    std::memcpy(&p[8], sender.bytes.data(), 6);
    store_be32(&p[14], any_gid(true).ipv4());
    store_be32(&p[24], any_gid(true).ipv4());
    disturb(p);
    return p;
  }

  std::vector<std::byte> discovery() {
    const bool solicitation = (in_.take<uint8_t>() & 1) != 0;
    std::vector<std::byte> message(24);
    store8(&message[0], solicitation ? 135 : 136);
    if (!solicitation) store8(&message[4], in_.take<uint8_t>());
    const Gid target = any_gid(false), source = any_gid(false);
    std::memcpy(&message[8], target.bytes.data(), 16);
    for (uint32_t options = in_.take<uint8_t>() & 3u; options > 0; --options) {
      std::array<std::byte, 8> option{};
      store8(&option[0], static_cast<uint8_t>(1 + (in_.take<uint8_t>() & 1)));
      store8(&option[1], static_cast<uint8_t>((in_.take<uint8_t>() & 7) == 0 ? in_.take<uint8_t>() : 1));
      const EthAddr mac = any_mac();
      std::memcpy(&option[2], mac.bytes.data(), 6);
      message.insert(message.end(), option.begin(), option.end());
    }
    disturb(message);
    message.resize(std::max<std::size_t>(message.size(), 4));
    const Gid to = (in_.take<uint8_t>() & 1) != 0 ? net::solicited_node(target) : any_gid(false);
    return net::make_icmpv6(source, to, (in_.take<uint8_t>() & 7) == 0 ? 64 : 255, std::move(message));
  }

  std::vector<std::byte> echo(bool ipv4) {
    std::vector<std::byte> message(8 + in_.below(64));
    store8(&message[0], ipv4 ? 8 : 128);
    disturb(message);
    message.resize(std::max<std::size_t>(message.size(), 4));
    const Gid source = any_gid(ipv4), destination = any_gid(ipv4);
    if (ipv4) return net::make_icmpv4(source, destination, std::move(message));
    return net::make_icmpv6(source, destination, 64, std::move(message));
  }

  std::vector<std::byte> igmp() {
    constexpr std::array<uint8_t, 5> kTypes{0x11, 0x12, 0x16, 0x17, 0x22};
    std::vector<std::byte> message((in_.take<uint8_t>() & 1) != 0 ? 8 : 12);
    store8(&message[0], kTypes[in_.take<uint8_t>() % kTypes.size()]);
    store8(&message[1], in_.take<uint8_t>());
    const bool general = (in_.take<uint8_t>() & 1) != 0;
    store_be32(&message[4], general ? 0 : any_gid(true).ipv4());
    if (message.size() == 12) store8(&message[9], in_.take<uint8_t>());
    disturb(message);
    message.resize(std::max<std::size_t>(message.size(), 4));
    return net::make_igmp(any_gid(true), general ? Gid::from_ipv4(0xe0000001) : any_gid(true), std::move(message));
  }

  std::vector<std::byte> mld() {
    constexpr std::array<uint8_t, 4> kTypes{130, 131, 132, 143};
    std::vector<std::byte> message((in_.take<uint8_t>() & 1) != 0 ? 24 : 28);
    store8(&message[0], kTypes[in_.take<uint8_t>() % kTypes.size()]);
    store_be16(&message[4], in_.take<uint16_t>());
    const bool general = (in_.take<uint8_t>() & 1) != 0;
    const Gid group = general ? Gid{} : any_gid(false);
    std::memcpy(&message[8], group.bytes.data(), 16);
    if (message.size() == 28) store8(&message[25], in_.take<uint8_t>());
    disturb(message);
    message.resize(std::max<std::size_t>(message.size(), 4));
    return net::make_mld(any_gid(false), general ? group6(1) : any_gid(false), std::move(message));
  }

  std::vector<std::byte> frame() {
    const auto kind = in_.take<uint8_t>() % 8;
    if (kind == 7) {
      std::vector<std::byte> bytes(in_.below(128));
      in_.fill(bytes);
      return bytes;
    }
    uint16_t type = net::kEtherIpv6;
    std::vector<std::byte> packet;
    switch (kind) {
      case 0: packet = arp(), type = net::kEtherArp; break;
      case 1:
      case 2: packet = discovery(); break;
      case 3: packet = echo(true), type = net::kEtherIpv4; break;
      case 4: packet = echo(false); break;
      case 5: packet = igmp(), type = net::kEtherIpv4; break;
      default: packet = mld(); break;
    }
    const auto how = in_.take<uint8_t>();
    const EthAddr to = (how & 7) != 0 ? kMac : any_mac(), from = any_mac();
    auto bytes = net::make_ether(to, from, (how & 0x70) == 0x70 ? 9 : vlan_, type, packet);
    if ((how & 0x80) != 0) disturb(bytes);
    return bytes;
  }

  /// As the port's service thread does.
  void receive() {
    const auto made = frame();
    const std::vector<std::byte> bytes(made.begin(), made.end());  // exactly its size, so that a read beyond it is seen
    const auto ether = net::parse_ether(bytes);
    const uint16_t type = ether ? ether->type : 0;
    const auto changes_before = neighbours_.counters().learned.get();
    sent_frames_ = 0, sent_bytes_ = 0;
    answering_ = true, answered_type_ = type;
    const bool heard = ether && ether->source != kMac && ether->vlan.value_or(0) == vlan_;
    if (!heard || !memberships_.on_frame(*ether, now_)) neighbours_.on_frame(bytes, now_);
    answering_ = false;
    require(sent_frames_ <= 1, "a frame got more than one answer");
    // An announcement in defence of an address, and an answer to a probe, are as long as the shortest frame.
    require(sent_bytes_ <= std::max<std::size_t>(bytes.size(), 78) + kLargestGrowth, "an answer is too large");
    require(heard || sent_frames_ == 0, "a frame that is none of ours got an answer");
    require(neighbours_.counters().learned.get() - changes_before <= 1, "a frame changed two neighbours");
  }

  void sent(std::span<const std::byte> frame) {
    ++sent_frames_;
    sent_bytes_ += frame.size();
    const auto ether = net::parse_ether(frame);
    require(ether && ether->source == kMac && ether->vlan.value_or(0) == vlan_, "a frame sent is not of this port");
    require(ether->payload.size() <= kMtu, "a frame sent is too long");
    require(ether->destination != EthAddr{} && ether->destination != kMac, "a frame sent to nobody");
    require(!answering_ || ether->type == answered_type_, "an answer of another family");
    if (ether->type == net::kEtherArp) return require(ether->payload.size() == 28, "an ARP packet of a wrong length");
    bool malformed = false;
    const auto ip = ether->type == net::kEtherIpv4 ? net::parse_ipv4(ether->payload, malformed)
                                                   : net::parse_ipv6(ether->payload, malformed);
    require(ip.has_value(), "a packet sent does not parse");
    // Nobody can make us speak to all hosts, but by claiming our address or probing for it.
    if (ether->destination.is_multicast()) {
      require(net::is_multicast(ip->destination), "a packet for one host was sent to many");
    } else {
      require(!net::is_multicast(ip->destination), "a packet for many hosts was sent to one");
    }
    const auto membership = net::parse_membership(*ether);
    require(membership || membership.error() != net::NoMembership::malformed, "a report sent is malformed");
  }

  void check_tables() {
    require(memberships_.ethernet_addresses().size() <= users_.size() + 4, "groups that nobody joined");
    for (const net::NeighbourAddress& change : neighbours_.take_changes()) {
      require(neighbours_.lookup(change.gid) == change.mac, "a change that is none");
      require(!net::is_multicast(change.gid) && !net::is_unspecified(change.gid), "a group became a neighbour");
      require(!change.mac.is_multicast() && change.mac != EthAddr{}, "a neighbour has no address of its own");
      require(change.mac != kMac, "a neighbour has our Ethernet address");
    }
    require(neighbours_.take_conflicts().size() <= 2 * 4, "conflicts pile up");
  }

  void poll() {
    neighbours_.poll(now_);
    memberships_.poll(now_);
    require(neighbours_.next_deadline() > now_, "a neighbour's deadline is past after a poll");
    require(memberships_.next_deadline() > now_, "a group's deadline is past after a poll");
  }

  void step() {
    switch (in_.take<uint8_t>() % 16) {
      case 0: now_ += Nanos(int64_t{1} << in_.take<uint8_t>() % 38); break;
      case 1: {
        const Nanos next = std::min(neighbours_.next_deadline(), memberships_.next_deadline());
        if (next != kNever) now_ = std::max(now_, next);
        break;
      }
      case 2: neighbours_.request(resolvable(), now_); break;
      case 3: {
        const Gid group = any_group();
        memberships_.join(group, now_);
        ++users_[group];
        break;
      }
      case 4: {
        const Gid group = any_group();
        if (const auto it = users_.find(group); it != users_.end()) {
          memberships_.leave(group, now_);
          if (--it->second == 0) users_.erase(it);
        }
        break;
      }
      case 5:
        neighbours_.set_table(addresses(in_.take<uint8_t>() % 4u), now_);
        memberships_.set_addresses(neighbours_.table().gids(), now_);
        break;
      case 6:
        neighbours_.announce(now_);
        memberships_.announce(now_);
        break;
      default: receive(); break;
    }
    poll();
  }

  Gid resolvable() {
    const auto last = static_cast<uint8_t>(3 + (in_.take<uint8_t>() & 3));
    return (last & 1) != 0 ? Gid::from_ipv4(0x0a000000 + last) : ipv6(1, last);
  }

  void end() {
    for (const auto& [group, users] : users_) {
      for (uint32_t i = 0; i < users; ++i) memberships_.leave(group, now_);
    }
    memberships_.set_addresses({}, now_);
    for (int polls = 0; memberships_.next_deadline() != kNever; ++polls) {
      require(polls < 10'000, "reports never end");
      now_ = std::max(now_, memberships_.next_deadline());
      memberships_.poll(now_);
    }
    require(memberships_.ethernet_addresses().empty(), "a group is left");
    for (int polls = 0; neighbours_.next_deadline() != kNever; ++polls) {
      require(polls < 10'000, "requests never end");
      now_ = std::max(now_, neighbours_.next_deadline());
      neighbours_.poll(now_);
    }
  }

  Input in_;
  const uint16_t vlan_;
  Nanos now_{1'000'000'000};
  std::size_t sent_frames_ = 0, sent_bytes_ = 0;
  bool answering_ = false;
  uint16_t answered_type_ = 0;
  net::Neighbours neighbours_;
  net::Memberships memberships_;
  std::map<Gid, uint32_t> users_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Program({data, size}).run();
  return 0;
}
