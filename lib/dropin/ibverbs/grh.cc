#include "dropin/ibverbs/grh.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::dropin {

namespace {

using Bytes = std::array<uint8_t, sizeof(ibv_grh)>;
constexpr std::size_t kIpv4At = 20;
constexpr uint8_t kProtocolUdp = 17;

/// An IPv4 header checksum is right where the header's words sum to all ones (RFC 1071).
bool is_ipv4(const Bytes& b) {
  if (b[kIpv4At] != 0x45) return false;
  uint32_t sum = 0;
  for (std::size_t i = kIpv4At; i < b.size(); i += 2) sum += uint32_t{b[i]} << 8 | b[i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  // The first 20 bytes are not defined before an IPv4 header, and zero in a header whose checksum was not kept.
  return sum == 0xffff || b[0] >> 4 != 6;
}

uint32_t big32(const Bytes& b, std::size_t at) {
  return uint32_t{b[at]} << 24 | uint32_t{b[at + 1]} << 16 | uint32_t{b[at + 2]} << 8 | b[at + 3];
}

Gid gid_at(const Bytes& b, std::size_t at) {
  Gid gid;
  std::memcpy(gid.bytes.data(), b.data() + at, gid.bytes.size());
  return gid;
}

struct Route {
  AddressVector back;
  Gid local;
};

Route from_ipv4(const Bytes& b) {
  Route route;
  route.local = Gid::from_ipv4(big32(b, kIpv4At + 16));
  route.back.dgid = Gid::from_ipv4(big32(b, kIpv4At + 12));
  route.back.traffic_class = b[kIpv4At + 1];
  route.back.hop_limit = b[kIpv4At + 8];
  return route;
}

Route from_ipv6(const Bytes& b) {
  Route route;
  const uint32_t first = big32(b, 0);
  route.local = gid_at(b, offsetof(ibv_grh, dgid));
  route.back.dgid = gid_at(b, offsetof(ibv_grh, sgid));
  route.back.flow_label = first & 0xfffff;
  route.back.traffic_class = static_cast<uint8_t>(first >> 20);
  route.back.hop_limit = b[7];
  return route;
}

}  // namespace

Result<AddressVector> route_back(const ibv_grh& grh, std::span<const Gid> gids) {
  Bytes bytes;
  std::memcpy(bytes.data(), &grh, bytes.size());
  const bool ipv4 = is_ipv4(bytes);
  if (!ipv4 && (bytes[0] >> 4 != 6 || grh.next_hdr != kProtocolUdp)) {
    return fail(EPROTONOSUPPORT, "the 40 bytes of the GRH hold neither an IPv4 nor an IPv6 header of RoCE v2");
  }
  Route route = ipv4 ? from_ipv4(bytes) : from_ipv6(bytes);
  if (route.local.is_multicast())
    return fail(EINVAL,
                "the message went to a multicast group, so its GRH holds no address of this port to reply from");
  const auto found = std::ranges::find(gids, route.local);
  if (found == gids.end())
    return fail(ENOENT, "the destination address in the message's GRH is not in the port's GID table");
  route.back.sgid_index = static_cast<uint8_t>(found - gids.begin());
  return route.back;
}

}  // namespace uroce::dropin
