#include "wire/roce_search.h"

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::wire {
namespace {

constexpr uint16_t kEthertypeProvider = 0x88a8;  // 802.1ad
constexpr uint16_t kEthertypeOldProvider = 0x9100;
constexpr uint8_t kProtocolRouting = 43;
constexpr uint8_t kProtocolFragment = 44;
constexpr uint8_t kProtocolAuthentication = 51;
constexpr uint8_t kProtocolDestination = 60;
constexpr uint8_t kProtocolMobility = 135;
constexpr uint8_t kProtocolHip = 139;
constexpr uint8_t kProtocolShim6 = 140;
constexpr uint8_t kNoTransport = 59;  // "no next header"; here also a later fragment

/// Walks over the headers at the beginning of a frame. Once they go on behind it, ended() is true.
class HeaderWalk {
 public:
  explicit HeaderWalk(std::span<const std::byte> head) : head_(head) {}
  bool ended() const { return ended_; }
  uint16_t be16(std::size_t offset) { return has(offset + 2) ? load_be16(&head_[at_ + offset]) : uint16_t{0}; }
  uint8_t byte(std::size_t offset) { return has(offset + 1) ? load8(&head_[at_ + offset]) : uint8_t{0}; }
  void skip(std::size_t bytes) { at_ += bytes; }

 private:
  bool has(std::size_t bytes) {
    if (at_ + bytes > head_.size()) ended_ = true;
    return !ended_;
  }
  std::span<const std::byte> head_;
  std::size_t at_ = 0;
  bool ended_ = false;
};

// The size of an IPv6 extension header, which is at the walk's place; nullopt for another protocol.
std::optional<std::size_t> extension_bytes(HeaderWalk& walk, uint8_t protocol) {
  switch (protocol) {
    case kProtocolFragment: return 8;
    case kProtocolAuthentication: return (std::size_t{walk.byte(1)} + 2) * 4;
    case kProtocolHopByHop:
    case kProtocolRouting:
    case kProtocolDestination:
    case kProtocolMobility:
    case kProtocolHip:
    case kProtocolShim6: return (std::size_t{walk.byte(1)} + 1) * 8;
    default: return std::nullopt;
  }
}

// To the transport header. Returns its protocol.
uint8_t walk_ipv6(HeaderWalk& walk) {
  uint8_t protocol = walk.byte(6);
  walk.skip(kIpv6Bytes);
  while (!walk.ended()) {
    const auto bytes = extension_bytes(walk, protocol);
    if (!bytes) break;
    if (protocol == kProtocolFragment && walk.be16(2) >> 3 != 0) return kNoTransport;
    protocol = walk.byte(0);
    walk.skip(*bytes);
  }
  return protocol;
}

}  // namespace

bool may_carry_roce(std::span<const std::byte> head, bool whole) {
  HeaderWalk walk(head);
  walk.skip(kEthernetBytes - 2);
  uint16_t type = walk.be16(0);
  while (type == kEthertypeVlan || type == kEthertypeProvider || type == kEthertypeOldProvider) {
    walk.skip(kVlanBytes);
    type = walk.be16(0);
  }
  walk.skip(2);
  uint8_t protocol = kNoTransport;
  if (type == kEthertypeIpv4) {
    const bool later_fragment = (walk.be16(6) & 0x1fff) != 0;
    protocol = later_fragment ? kNoTransport : walk.byte(9);
    walk.skip(std::size_t{walk.byte(0) & 0xfu} * 4);
  } else if (type == kEthertypeIpv6) {
    protocol = walk_ipv6(walk);
  }
  const bool to_roce = protocol == kProtocolUdp && walk.be16(2) == kUdpPort;
  return walk.ended() ? !whole : to_roce;
}

}  // namespace uroce::wire
