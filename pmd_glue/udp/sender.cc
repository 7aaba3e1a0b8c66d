#include "pmd_glue/udp/sender.h"

#include <netinet/udp.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/header_bytes.h"
#include "wire/headers.h"

namespace uroce::glue::udp {

namespace {

using kif::UdpHeaders;

// Offsets from the IP header.
constexpr std::size_t kIpv4Id = 4, kIpv4Ttl = 8, kIpv4Addresses = 12, kIpv4Bytes = 4;
constexpr std::size_t kIpv6HopLimit = 7, kIpv6Addresses = 8, kIpv6Bytes = 16;
constexpr uint32_t kMostPayload = 65535 - 40 - 8;
constexpr uint32_t kLeastPayload = wire::kBthBytes + wire::kIcrcBytes;

std::byte* ip_of(const rte_mbuf& frame, const UdpHeaders& headers) {
  return rte_pktmbuf_mtod_offset(&frame, std::byte*, wire::kEthernetBytes + headers.tag);
}
std::size_t udp_offset(const UdpHeaders& headers) {
  return headers.ip_version == 4 ? wire::kIpv4Bytes : wire::kIpv6Bytes;
}

/// The headers of a RoCE packet; nothing for other frames.
std::optional<UdpHeaders> roce_headers(const rte_mbuf& frame) {
  const auto headers = kif::udp_headers({rte_pktmbuf_mtod(&frame, const std::byte*), frame.data_len});
  if (!headers || frame.pkt_len < headers->length + kLeastPayload) return std::nullopt;
  const std::byte* const udp = ip_of(frame, *headers) + udp_offset(*headers);
  return load_be16(udp + 2) == wire::kUdpPort ? headers : std::nullopt;
}

/// Whether two frames have the same addresses, traffic class and hop limit.
bool same_flow(const std::byte* a, const std::byte* b, const UdpHeaders& headers) {
  if (headers.ip_version == 4) {
    return a[1] == b[1] && a[kIpv4Ttl] == b[kIpv4Ttl] &&
           std::memcmp(a + kIpv4Addresses, b + kIpv4Addresses, 2 * kIpv4Bytes) == 0;
  }
  return std::memcmp(a, b, 4) == 0 && std::memcmp(a + kIpv6HopLimit, b + kIpv6HopLimit, 1 + 2 * kIpv6Bytes) == 0;
}

/// Appends a control message (cmsg(3)).
template <class T>
void add_control(msghdr& header, int level, int type, const T& value) {
  auto* const at = reinterpret_cast<cmsghdr*>(static_cast<std::byte*>(header.msg_control) + header.msg_controllen);
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(sizeof(T));
  std::memcpy(CMSG_DATA(at), &value, sizeof(T));
  header.msg_controllen += CMSG_SPACE(sizeof(T));
}

}  // namespace

uint16_t Sender::send(const SourcePorts& sources, std::span<rte_mbuf*> mbufs) {
  constexpr SourcePorts::Way kNone{.fd = -1, .port = 0};
  const auto way_of = [&](const rte_mbuf* mbuf) {
    const auto headers = roce_headers(*mbuf);
    return headers ? sources.way_of(load_be16(ip_of(*mbuf, *headers) + udp_offset(*headers))) : kNone;
  };
  uint16_t done = 0;
  while (done < mbufs.size()) {
    const auto rest = mbufs.subspan(done);
    const SourcePorts::Way way = way_of(rest.front());
    if (way == kNone) {
      foreign_.add();
      rte_pktmbuf_free(rest.front());
      ++done;
      continue;
    }
    const auto other =
        std::find_if(rest.begin() + 1, rest.end(), [&](const rte_mbuf* mbuf) { return way_of(mbuf) != way; });
    const std::span run(rest.begin(), other);
    source_port_ = way.port;
    const uint16_t sent = Outbox::send(way.fd, run);
    done = static_cast<uint16_t>(done + sent);
    if (sent < run.size()) break;
  }
  return done;
}

// The header fields change as well: a frame that waits is described again, maybe as another segment.
void Sender::fit(rte_mbuf& frame, const UdpHeaders& headers, uint16_t segment) {
  std::byte* const ip = ip_of(frame, headers);
  std::byte* const udp = ip + udp_offset(headers);
  const std::size_t from_ip = frame.pkt_len - wire::kEthernetBytes - headers.tag - wire::kIcrcBytes;
  uint32_t change = 0;
  if (const uint16_t bits = load_be16(udp) ^ source_port_; bits != 0) {
    change = changes_.of(bits, from_ip - udp_offset(headers) - 2);
    store_be16(udp, source_port_);
  }
  if (const uint16_t bits = headers.ip_version == 4 ? load_be16(ip + kIpv4Id) ^ segment : 0; bits != 0) {
    change ^= changes_.of(bits, from_ip - kIpv4Id - 2);
    store_be16(ip + kIpv4Id, segment);
  }
  const rte_mbuf* const last = rte_pktmbuf_lastseg(&frame);
  std::byte* const icrc = rte_pktmbuf_mtod_offset(last, std::byte*, last->data_len - wire::kIcrcBytes);
  store_le32(icrc, load_le32(icrc) ^ change);
}

void Sender::address(Message& message, msghdr& header, const std::byte* ip, const UdpHeaders& headers,
                     uint16_t segment_bytes) const {
  message = {};
  header.msg_name = &message.to;
  header.msg_control = message.control.data();
  if (headers.ip_version == 4) {
    in_pktinfo source{};
    std::memcpy(&source.ipi_spec_dst, ip + kIpv4Addresses, kIpv4Bytes);
    add_control(header, SOL_IP, IP_PKTINFO, source);
    add_control(header, SOL_IP, IP_TOS, static_cast<int>(load8(ip + 1)));
    add_control(header, SOL_IP, IP_TTL, std::max(1, static_cast<int>(load8(ip + kIpv4Ttl))));
  } else {
    in6_pktinfo source{};
    std::memcpy(&source.ipi6_addr, ip + kIpv6Addresses, kIpv6Bytes);
    add_control(header, SOL_IPV6, IPV6_PKTINFO, source);
    add_control(header, SOL_IPV6, IPV6_TCLASS, static_cast<int>(load_be16(ip) >> 4 & 0xff));
    add_control(header, SOL_IPV6, IPV6_HOPLIMIT, static_cast<int>(load8(ip + kIpv6HopLimit)));
  }
  if (segment_bytes != 0) add_control(header, SOL_UDP, UDP_SEGMENT, segment_bytes);
  if (!ipv6_) {
    auto& to = reinterpret_cast<sockaddr_in&>(message.to);
    to.sin_family = AF_INET;
    to.sin_port = htons(wire::kUdpPort);
    std::memcpy(&to.sin_addr, ip + kIpv4Addresses + kIpv4Bytes, kIpv4Bytes);
    header.msg_namelen = sizeof to;
    return;
  }
  auto& to = reinterpret_cast<sockaddr_in6&>(message.to);
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(wire::kUdpPort);
  auto* const bytes = reinterpret_cast<std::byte*>(&to.sin6_addr);
  if (headers.ip_version == 4) {  // mapped (RFC 4291, 2.5.5.2)
    bytes[10] = bytes[11] = std::byte{0xff};
    std::memcpy(bytes + 12, ip + kIpv4Addresses + kIpv4Bytes, kIpv4Bytes);
  } else {
    std::memcpy(bytes, ip + kIpv6Addresses + kIpv6Bytes, kIpv6Bytes);
  }
  header.msg_namelen = sizeof to;
}

uint16_t Sender::describe(std::size_t index, msghdr& message, std::span<rte_mbuf* const> mbufs, bool joins) {
  const UdpHeaders headers = roce_headers(*mbufs[0]).value_or(UdpHeaders{});  // send() has looked
  const std::byte* const ip = ip_of(*mbufs[0], headers);
  const uint32_t segment_bytes = mbufs[0]->pkt_len - headers.length;
  uint32_t bytes = 0;
  uint16_t count = 0;
  for (rte_mbuf* const mbuf : mbufs) {
    const uint32_t more = mbuf->pkt_len - headers.length;
    if (count != 0) {
      const auto next = roce_headers(*mbuf);
      if (!joins || count == kif::kMaxSegments || !next || next->length != headers.length || more > segment_bytes ||
          bytes + more > kMostPayload || !same_flow(ip, ip_of(*mbuf, *next), headers)) {
        break;
      }
    }
    fit(*mbuf, headers, count);
    add_bytes(mbuf, headers.length);
    bytes += more;
    ++count;
    if (more < segment_bytes) break;  // a shorter one is the last
  }
  address(messages_[index], message, ip, headers, count > 1 ? static_cast<uint16_t>(segment_bytes) : 0);
  return count;
}

}  // namespace uroce::glue::udp
