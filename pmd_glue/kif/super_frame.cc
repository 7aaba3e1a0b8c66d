#include "pmd_glue/kif/super_frame.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/header_bytes.h"

namespace uroce::glue::kif {

namespace {

using wire::kEthernetBytes;
using wire::kUdpBytes;

// Offsets from the beginning of an untagged frame (RFC 791, RFC 8200, RFC 768). A tag moves all behind it.
constexpr std::size_t kEthertype = 12;
constexpr std::size_t kIp = kEthernetBytes;
constexpr std::size_t kIpv4Length = kIp + 2;
constexpr std::size_t kIpv4Id = kIp + 4;
constexpr std::size_t kIpv4Fragment = kIp + 6;
constexpr std::size_t kIpv4Protocol = kIp + 9;
constexpr std::size_t kIpv4Checksum = kIp + 10;
constexpr std::size_t kIpv4Addresses = kIp + 12;
constexpr std::size_t kIpv4Udp = kIp + wire::kIpv4Bytes;
constexpr std::size_t kIpv6Length = kIp + 4;
constexpr std::size_t kIpv6NextHeader = kIp + 6;
constexpr std::size_t kIpv6Addresses = kIp + 8;
constexpr std::size_t kIpv6Udp = kIp + wire::kIpv6Bytes;
// Offsets from the UDP header.
constexpr std::size_t kUdpLength = 4;
constexpr std::size_t kUdpChecksum = 6;

constexpr uint16_t kDontFragment = 0x4000;
constexpr uint32_t kLeastSegment = wire::kBthBytes + wire::kIcrcBytes;

/// Where the offsets above begin to count.
const std::byte* untagged(const std::byte* head, const UdpHeaders& headers) { return head + headers.tag; }
std::byte* untagged(std::byte* head, const UdpHeaders& headers) { return head + headers.tag; }

constexpr std::size_t udp_at(const UdpHeaders& headers) { return headers.ip_version == 4 ? kIpv4Udp : kIpv6Udp; }

/// The frame's length as its IP header says it, bytes from the Ethernet header on.
uint32_t stated_length(const std::byte* head, const UdpHeaders& headers) {
  const std::byte* p = untagged(head, headers);
  if (headers.ip_version == 4) return headers.tag + kIp + load_be16(p + kIpv4Length);
  return headers.tag + kIpv6Udp + load_be16(p + kIpv6Length);
}

/// Writes lengths and, for IPv4, the header checksum for `udp_bytes` from the UDP header on.
void set_lengths(std::byte* head, const UdpHeaders& headers, uint32_t udp_bytes) {
  std::byte* const p = untagged(head, headers);
  store_be16(p + udp_at(headers) + kUdpLength, static_cast<uint16_t>(udp_bytes));
  if (headers.ip_version == 6) return store_be16(p + kIpv6Length, static_cast<uint16_t>(udp_bytes));
  store_be16(p + kIpv4Length, static_cast<uint16_t>(wire::kIpv4Bytes + udp_bytes));
  store_be16(p + kIpv4Checksum, 0);
  const auto sum = static_cast<uint16_t>(~wire::fold(wire::ipv4_sum(p + kIp)));
  std::memcpy(p + kIpv4Checksum, &sum, sizeof sum);  // the sum is of words in the header's own byte order
}

/// The sum of UDP's pseudo-header (RFC 768, RFC 8200 8.1), to which the kernel adds the datagram's.
uint16_t pseudo_sum(const std::byte* head, const UdpHeaders& headers, uint32_t udp_bytes) {
  const std::byte* p = untagged(head, headers);
  const std::size_t from = headers.ip_version == 4 ? kIpv4Addresses : kIpv6Addresses;
  uint64_t sum = udp_bytes + wire::kProtocolUdp;
  for (std::size_t at = from; at < udp_at(headers); at += 4) sum += load_be32(p + at);
  return wire::fold(sum);
}

}  // namespace

std::optional<UdpHeaders> udp_headers(std::span<const std::byte> frame) {
  if (frame.size() < kIpv4Udp + kUdpBytes) return std::nullopt;
  const uint8_t tag = load_be16(frame.data() + kEthertype) == wire::kEthertypeVlan ? wire::kVlanBytes : 0;
  const std::byte* p = frame.data() + tag;
  const std::size_t bytes = frame.size() - tag;
  const uint16_t ethertype = load_be16(p + kEthertype);
  if (ethertype == wire::kEthertypeIpv4) {
    const bool plain = bytes >= kIpv4Udp + kUdpBytes && load8(p + kIp) == 0x45 &&
                       load8(p + kIpv4Protocol) == wire::kProtocolUdp &&
                       (load_be16(p + kIpv4Fragment) & ~kDontFragment) == 0;
    if (!plain) return std::nullopt;
    return UdpHeaders{4, static_cast<uint8_t>(tag + kIpv4Udp + kUdpBytes), tag};
  }
  const bool plain = ethertype == wire::kEthertypeIpv6 && bytes >= kIpv6Udp + kUdpBytes && load8(p + kIp) >> 4 == 6 &&
                     load8(p + kIpv6NextHeader) == wire::kProtocolUdp;
  if (!plain) return std::nullopt;
  return UdpHeaders{6, static_cast<uint8_t>(tag + kIpv6Udp + kUdpBytes), tag};
}

FrameRun::FrameRun(std::span<const std::byte> head, uint32_t length) : head_(head) {
  const auto headers = udp_headers(head);
  if (!headers || stated_length(head.data(), *headers) != length || length <= headers->length) return;
  headers_ = *headers;
  segment_bytes_ = payload_bytes_ = length - headers->length;
  ended_ = false;
}

bool FrameRun::continues(const std::byte* head) const {
  const std::byte* first = head_.data();
  if (headers_.tag != 0) {
    if (std::memcmp(first, head, headers_.tag) != 0) return false;
    first = untagged(first, headers_);
    head = untagged(head, headers_);
  }
  const auto same = [&](std::size_t from, std::size_t to) {
    return std::memcmp(first + from, head + from, to - from) == 0;
  };
  if (headers_.ip_version == 6) {
    return same(0, kIpv6Length) && same(kIpv6NextHeader, kIpv6Udp + kUdpLength);
  }
  const auto id = static_cast<uint16_t>(load_be16(first + kIpv4Id) + segments_);
  return load_be16(head + kIpv4Id) == id && same(0, kIpv4Length) && same(kIpv4Fragment, kIpv4Checksum) &&
         same(kIpv4Addresses, kIpv4Udp + kUdpLength);
}

bool FrameRun::add(std::span<const std::byte> head, uint32_t length) {
  if (ended_ || segments_ == kMaxSegments || head.size() < headers_.length || length <= headers_.length) return false;
  const uint32_t bytes = length - headers_.length;
  if (bytes > segment_bytes_ || headers_.length - headers_.tag - kIp + payload_bytes_ + bytes > kMaxIpBytes)
    return false;
  if (!continues(head.data()) || stated_length(head.data(), headers_) != length) return false;
  ++segments_;
  payload_bytes_ += bytes;
  ended_ = bytes < segment_bytes_;
  return true;
}

VnetHeader FrameRun::finish(std::byte* headers) const {
  std::memcpy(headers, head_.data(), headers_.length);
  const auto udp_bytes = static_cast<uint32_t>(kUdpBytes + payload_bytes_);
  set_lengths(headers, headers_, udp_bytes);
  const std::size_t udp = headers_.tag + udp_at(headers_);
  store_be16(headers + udp + kUdpChecksum, pseudo_sum(headers, headers_, udp_bytes));
  VnetHeader vnet;
  vnet.flags = VnetHeader::kNeedsChecksum;
  vnet.gso_type = VnetHeader::kUdpSegments;
  vnet.hdr_len = headers_.length;
  vnet.gso_size = static_cast<uint16_t>(segment_bytes_);
  vnet.csum_start = static_cast<uint16_t>(udp);
  vnet.csum_offset = kUdpChecksum;
  return vnet;
}

std::expected<Split, SuperFault> split(const VnetHeader& vnet, std::span<const std::byte> head, uint32_t length) {
  if (vnet.gso_type != VnetHeader::kUdpSegments) return std::unexpected(SuperFault::kind);
  const auto headers = udp_headers(head);
  if (!headers || headers->tag != 0 || length <= headers->length) return std::unexpected(SuperFault::headers);
  const std::size_t udp_bytes = load_be16(head.data() + udp_at(*headers) + kUdpLength);
  if (stated_length(head.data(), *headers) != length || udp_at(*headers) + udp_bytes != length) {
    return std::unexpected(SuperFault::lengths);
  }
  // The last segment may be short, too short even: it is parsed like any frame.
  if (vnet.gso_size < kLeastSegment) return std::unexpected(SuperFault::segment);
  // A segment size may be forged. No segment is longer than all of them.
  const uint32_t payload_bytes = length - headers->length;
  const uint32_t segment_bytes = std::min<uint32_t>(vnet.gso_size, payload_bytes);
  const uint32_t segments = (payload_bytes + segment_bytes - 1) / segment_bytes;
  if (segments > kMaxReceivedSegments) return std::unexpected(SuperFault::segment);
  return Split{*headers, segment_bytes, payload_bytes, segments};
}

uint16_t segment_id(std::span<const std::byte> head, std::span<const std::byte> first,
                    std::span<const std::byte> segment, uint32_t i) {
  constexpr std::size_t kPsnLow = 10;  // in the BTH
  const uint16_t id = load_be16(head.data() + kIpv4Id);
  const bool is_psn = first.size() >= wire::kBthBytes && load_be16(first.data() + kPsnLow) == id;
  if (is_psn && segment.size() >= wire::kBthBytes) return load_be16(segment.data() + kPsnLow);
  return static_cast<uint16_t>(id + i);
}

SegmentHeaders::SegmentHeaders(std::span<const std::byte> head, const Split& split) : split_(split) {
  std::byte* const out = bytes_.data();
  std::memcpy(out, head.data(), split.headers.length);
  store_be16(out + udp_at(split.headers) + kUdpChecksum, 0);
  if (split.headers.ip_version == 4) store_be16(out + kIpv4Id, 0);
  set_lengths(out, split.headers, static_cast<uint32_t>(kUdpBytes) + split.segment_bytes);
  if (split.headers.ip_version != 4) return;
  std::memset(out + kIpv4Checksum, 0, 2);
  sum_ = wire::ipv4_sum(out + kIp);
}

void SegmentHeaders::write(std::byte* out, uint32_t i, uint16_t id) const {
  // Two copies of fixed size that overlap: headers are 42 or 62 bytes.
  constexpr std::size_t kHalf = 32;
  const std::size_t second = split_.headers.length - kHalf;
  std::memcpy(out, bytes_.data(), kHalf);
  std::memcpy(out + second, bytes_.data() + second, kHalf);
  const bool ipv4 = split_.headers.ip_version == 4;
  if (ipv4) {
    store_be16(out + kIpv4Id, id);
    uint16_t word = 0;
    std::memcpy(&word, out + kIpv4Id, sizeof word);
    const auto sum = static_cast<uint16_t>(~wire::fold(sum_ + word));
    std::memcpy(out + kIpv4Checksum, &sum, sizeof sum);
  }
  const uint32_t bytes = split_.bytes_of(i);
  if (bytes != split_.segment_bytes) set_lengths(out, split_.headers, static_cast<uint32_t>(kUdpBytes) + bytes);
}

}  // namespace uroce::glue::kif
