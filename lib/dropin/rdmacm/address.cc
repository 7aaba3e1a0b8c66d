#include "dropin/rdmacm/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace uroce::dropin::rdmacm {

namespace {

void fill(const CmAddress& from, sockaddr_in& to) {
  to.sin_family = AF_INET;
  to.sin_port = htons(from.port);
  to.sin_addr.s_addr = htonl(from.ip.is_ipv4() ? from.ip.ipv4() : 0);
}

void fill(const CmAddress& from, sockaddr_in6& to) {
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(from.port);
  std::memcpy(&to.sin6_addr, from.ip.bytes.data(), from.ip.bytes.size());
}

/// The service id has the port space and the port (IBTA annex A11).
void fill(const CmAddress& from, uint32_t space, sockaddr_ib& to) {
  to.sib_family = AF_IB;
  to.sib_pkey = htobe16(kFullMember);
  std::memcpy(&to.sib_addr, from.ip.bytes.data(), from.ip.bytes.size());
  to.sib_sid = htobe64(uint64_t{space} << 16 | from.port);
  to.sib_sid_mask = htobe64(from.port != 0 ? ~uint64_t{0} : RDMA_IB_IP_PS_MASK);
}

}  // namespace

socklen_t address_length(const sockaddr* address) {
  switch (address != nullptr ? address->sa_family : AF_UNSPEC) {
    case AF_INET: return sizeof(sockaddr_in);
    case AF_INET6: return sizeof(sockaddr_in6);
    case AF_IB: return sizeof(sockaddr_ib);
    default: return 0;
  }
}

std::optional<CmAddress> to_address(const sockaddr* address) {
  CmAddress out;
  switch (address != nullptr ? address->sa_family : AF_UNSPEC) {
    case AF_INET: {
      sockaddr_in in{};
      std::memcpy(&in, address, sizeof(in));
      out.ip = Gid::from_ipv4(ntohl(in.sin_addr.s_addr));
      break;
    }
    case AF_INET6: {
      sockaddr_in6 in{};
      std::memcpy(&in, address, sizeof(in));
      std::memcpy(out.ip.bytes.data(), &in.sin6_addr, out.ip.bytes.size());
      break;
    }
    case AF_IB: {
      sockaddr_ib in{};
      std::memcpy(&in, address, sizeof(in));
      std::memcpy(out.ip.bytes.data(), &in.sib_addr, out.ip.bytes.size());
      break;
    }
    default: return std::nullopt;
  }
  out.port = ntohs(port_of(address));
  return out;
}

void to_sockaddr(const CmAddress& from, sa_family_t family, uint32_t space, sockaddr_storage& to) {
  to = {};
  if (family == AF_UNSPEC) family = from.ip.is_ipv4() ? AF_INET : AF_INET6;
  switch (family) {
    case AF_INET: return fill(from, reinterpret_cast<sockaddr_in&>(to));
    case AF_IB: return fill(from, space, reinterpret_cast<sockaddr_ib&>(to));
    default: return fill(from, reinterpret_cast<sockaddr_in6&>(to));
  }
}

__be16 port_of(const sockaddr* address) {
  switch (address->sa_family) {
    case AF_INET: return reinterpret_cast<const sockaddr_in*>(address)->sin_port;
    case AF_INET6: return reinterpret_cast<const sockaddr_in6*>(address)->sin6_port;
    case AF_IB: {
      sockaddr_ib in{};
      std::memcpy(&in, address, sizeof(in));
      return htobe16(static_cast<uint16_t>(be64toh(in.sib_sid)));
    }
    default: return 0;
  }
}

}  // namespace uroce::dropin::rdmacm
