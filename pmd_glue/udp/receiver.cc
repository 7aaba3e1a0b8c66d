#include "pmd_glue/udp/receiver.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <rte_mbuf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/header_bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::glue::udp {

namespace {

/// More than the longest message, so that none is cut off.
constexpr std::size_t kWholeBytes = 1 << 17;
/// Control messages of one datagram, with room for those that nobody asked for.
constexpr std::size_t kControl = 512;
constexpr std::size_t kLeastBytes = wire::kBthBytes + wire::kIcrcBytes;

// Offsets from the IPv4 header.
constexpr std::size_t kId = 4, kFragment = 6, kChecksum = 10;
constexpr uint16_t kDontFragment = 0x4000;

Gid gid_of(const in6_addr& address) {
  Gid gid;
  std::memcpy(gid.bytes.data(), &address, gid.bytes.size());
  return gid;
}

template <class T>
T value_of(const cmsghdr& control) {
  T value{};
  const std::size_t bytes = control.cmsg_len - CMSG_LEN(0);
  std::memcpy(&value, CMSG_DATA(&control), std::min(sizeof value, bytes));
  return value;
}

/// The headers that the control messages tell; nothing without a destination. `lost`: the socket's count.
std::optional<DatagramHeaders> headers_of(msghdr& message, const sockaddr_storage& from, uint32_t& lost) {
  DatagramHeaders out;
  std::optional<Gid> destination;
  for (const cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr;
       control = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(control))) {
    const auto is = [control](int level, int type) {
      return control->cmsg_level == level && control->cmsg_type == type;
    };
    if (is(SOL_IP, IP_PKTINFO)) destination = Gid::from_ipv4(ntohl(value_of<in_pktinfo>(*control).ipi_addr.s_addr));
    if (is(SOL_IPV6, IPV6_PKTINFO)) destination = gid_of(value_of<in6_pktinfo>(*control).ipi6_addr);
    if (is(SOL_IP, IP_TOS)) out.traffic_class = value_of<uint8_t>(*control);
    if (is(SOL_IPV6, IPV6_TCLASS)) out.traffic_class = static_cast<uint8_t>(value_of<int>(*control));
    if (is(SOL_IP, IP_TTL) || is(SOL_IPV6, IPV6_HOPLIMIT))
      out.hop_limit = static_cast<uint8_t>(value_of<int>(*control));
    if (is(SOL_UDP, UDP_GRO)) out.segment_bytes = static_cast<uint32_t>(std::max(0, value_of<int>(*control)));
    if (is(SOL_SOCKET, SO_RXQ_OVFL)) lost = value_of<uint32_t>(*control);
  }
  if (!destination) return std::nullopt;
  out.destination = *destination;
  if (from.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(from);
    out.source = Gid::from_ipv4(ntohl(four.sin_addr.s_addr));
    out.source_port = ntohs(four.sin_port);
  } else {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(from);
    out.source = gid_of(six.sin6_addr);
    out.source_port = ntohs(six.sin6_port);
  }
  return out;
}

bool is_multicast(const Gid& gid) {
  return gid.is_ipv4() ? gid.ipv4() >> 28 == 0xe : gid.bytes[0] == decltype(gid.bytes)::value_type{0xff};
}

void set_ipv4_fields(std::byte* ip, uint16_t id, uint16_t fragment) {
  store_be16(ip + kId, id);
  store_be16(ip + kFragment, fragment);
  store_be16(ip + kChecksum, 0);
  const auto sum = static_cast<uint16_t>(~wire::fold(wire::ipv4_sum(ip)));
  std::memcpy(ip + kChecksum, &sum, sizeof sum);  // the sum is of words in the header's own byte order
}

}  // namespace

Receiver::Receiver(rte_mempool* pool, const EthAddr& mac)
    : pool_(pool), mac_(mac), room_(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM), whole_(kWholeBytes) {}

Receiver::~Receiver() { rte_pktmbuf_free_bulk(stock_.data(), static_cast<unsigned>(stock_count_)); }

bool Receiver::fill_stock() {
  const std::size_t missing = stock_.size() - stock_count_;
  if (missing != 0 && rte_pktmbuf_alloc_bulk(pool_, &stock_[stock_count_], static_cast<unsigned>(missing)) != 0) {
    return false;
  }
  stock_count_ = stock_.size();
  return true;
}

uint16_t Receiver::receive(int fd, std::span<rte_mbuf*> out) {
  return ready_.give(out, [this, fd] { return receive_message(fd); });
}

bool Receiver::receive_message(int fd) {
  if (!fill_stock()) {
    counters_.buffers_missing.add();
    return false;
  }
  sockaddr_storage from;
  alignas(cmsghdr) std::byte control[kControl];
  iovec whole{whole_.data(), whole_.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t bytes = recvmsg(fd, &message, MSG_DONTWAIT);
  if (bytes < 0) return errno != EAGAIN && errno != EINTR;  // an error of an earlier datagram of ours: look again
  uint32_t lost = lost_before_;
  const auto headers = headers_of(message, from, lost);
  counters_.lost.add(lost - lost_before_);
  lost_before_ = lost;
  if (!headers) {
    counters_.no_headers.add();
  } else {
    take(*headers, {whole_.data(), static_cast<std::size_t>(bytes)});
  }
  return true;
}

void Receiver::take(const DatagramHeaders& headers, std::span<const std::byte> bytes) {
  const std::size_t segment =
      headers.segment_bytes != 0 ? headers.segment_bytes : std::max<std::size_t>(1, bytes.size());
  const std::size_t count = std::max<std::size_t>(1, (bytes.size() + segment - 1) / segment);
  const std::size_t header_bytes = headers.destination.is_ipv4() ? 42 : 62;
  if (count > stock_count_ || segment < kLeastBytes || header_bytes + std::min(segment, bytes.size()) > room_) {
    return counters_.bad_lengths.add();
  }
  if (count > 1) {
    counters_.super_frames.add();
    counters_.super_segments.add(count);
  }
  ready_.clear();
  while (!bytes.empty()) {
    const auto datagram = bytes.first(std::min(segment, bytes.size()));
    bytes = bytes.subspan(datagram.size());
    if (datagram.size() < kLeastBytes) {
      counters_.bad_lengths.add();
      continue;
    }
    rte_mbuf* const mbuf = stock_[--stock_count_];
    build(*mbuf, headers, datagram);
    ready_.add(mbuf);
  }
}

void Receiver::build(rte_mbuf& mbuf, const DatagramHeaders& headers, std::span<const std::byte> datagram) {
  // Nobody's address: the kernel knows the neighbour.
  constexpr EthAddr kNobody{{0x02, 0, 0, 0, 0, 0}};
  const Gid& to = headers.destination;
  const auto route = wire::make_template({.src_mac = kNobody,
                                          .dst_mac = is_multicast(to) ? wire::multicast_mac(to) : mac_,
                                          .sgid = headers.source,
                                          .dgid = to,
                                          .traffic_class = headers.traffic_class,
                                          .hop_limit = headers.hop_limit});
  std::byte* const frame = rte_pktmbuf_mtod(&mbuf, std::byte*);
  const std::size_t length = wire::write_l2_to_l4(frame, route, headers.source_port, datagram.size(), 0);
  mbuf.data_len = static_cast<uint16_t>(length + datagram.size());
  mbuf.pkt_len = mbuf.data_len;
  std::byte* const l3 = frame + route.l3_offset;
  const std::size_t l3_to_udp = length - route.l3_offset;
  std::memcpy(l3 + l3_to_udp, datagram.data(), wire::kBthBytes);
  auto crc = wire::IcrcState::begin({l3, l3_to_udp + wire::kBthBytes}, route.ip_version);
  crc.copy(l3 + l3_to_udp + wire::kBthBytes,
           datagram.subspan(wire::kBthBytes, datagram.size() - wire::kBthBytes - wire::kIcrcBytes));
  const std::byte* const icrc = datagram.data() + datagram.size() - wire::kIcrcBytes;
  std::memcpy(l3 + l3_to_udp + datagram.size() - wire::kIcrcBytes, icrc, wire::kIcrcBytes);
  if (const uint32_t change = crc.value() ^ load_le32(icrc); change != 0 && route.ip_version == 4) {
    find_id(l3, l3_to_udp + datagram.size() - wire::kIcrcBytes, change);
  }
}

void Receiver::find_id(std::byte* ip, std::size_t from_ip, uint32_t change) {
  const std::size_t behind_id = from_ip - kId - 2;
  if (const auto id = changes_.bits_for(change, behind_id)) return set_ipv4_fields(ip, *id, kDontFragment);
  const uint32_t may_fragment = changes_.of(kDontFragment, from_ip - kFragment - 2);
  if (const auto id = changes_.bits_for(change ^ may_fragment, behind_id)) return set_ipv4_fields(ip, *id, 0);
  counters_.unknown_ids.add();
}

}  // namespace uroce::glue::udp
