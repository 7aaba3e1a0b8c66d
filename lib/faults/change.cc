#include "faults/change.h"

#include <cstring>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/icrc.h"

namespace uroce::faults {

namespace {

constexpr std::byte kCongestionExperienced{3};
constexpr std::size_t kIpv4Checksum = 10;
/// The congestion bits of the BTH, which the ICRC does not cover (annex A17.3.3).
constexpr std::size_t kUncovered = 4;

}  // namespace

bool corrupt(const Rule& rule, const wire::Packet& packet, std::span<std::byte> frame, uint64_t draw) {
  const std::size_t payload = packet.bth_offset + packet.op().header_length;
  const std::size_t trailer = payload + packet.payload.size() + packet.bth.pad;
  std::span<std::byte> part;
  switch (rule.part) {
    case Part::payload: part = frame.subspan(payload, packet.payload.size()); break;
    case Part::header: part = frame.subspan(packet.bth_offset, packet.op().header_length); break;
    case Part::icrc: part = frame.subspan(trailer, wire::kIcrcBytes); break;
  }
  if (rule.at ? *rule.at >= part.size() : part.empty()) return false;
  std::size_t at = rule.at ? *rule.at : (draw >> 3) % part.size();
  if (!rule.at && rule.part == Part::header && at == kUncovered) ++at;
  part[at] ^= std::byte{1} << (draw & 7);
  if (rule.part != Part::icrc && rule.icrc_is_right) {
    const auto covered = frame.subspan(packet.l3_offset, trailer - packet.l3_offset);
    store_le32(frame.data() + trailer, wire::icrc_of(covered, packet.ip_version));
  }
  return true;
}

void mark_ecn(const wire::Packet& packet, std::span<std::byte> frame) {
  std::byte* const ip = frame.data() + packet.l3_offset;
  if (packet.ip_version == 6) {
    ip[1] |= kCongestionExperienced << 4;  // the traffic class stands across two bytes (RFC 8200, 3)
    return;
  }
  ip[1] |= kCongestionExperienced;
  store_be16(ip + kIpv4Checksum, 0);
  const auto sum = static_cast<uint16_t>(~wire::fold(wire::ipv4_sum(ip)));
  std::memcpy(ip + kIpv4Checksum, &sum, sizeof sum);  // the sum is in wire order, see ipv4_sum()
}

}  // namespace uroce::faults
