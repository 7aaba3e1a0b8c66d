// Names to addresses (rdma_getaddrinfo(3)). ai_route stays empty: rdma_resolve_route() finds routes.
#include <netdb.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>

#include "dropin/rdmacm/address.h"
#include "dropin/rdmacm/objects.h"

namespace uroce::dropin::rdmacm {

namespace {

struct Freed {
  void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using RdmaInfo = std::unique_ptr<rdma_addrinfo, Freed>;

int protocol_of(const rdma_addrinfo& hints, int socket_type) {
  switch (hints.ai_port_space) {
    case RDMA_PS_TCP: return IPPROTO_TCP;
    case RDMA_PS_IPOIB:
    case RDMA_PS_UDP: return IPPROTO_UDP;
    case RDMA_PS_IB:
      if (socket_type == SOCK_STREAM) return IPPROTO_TCP;
      return socket_type == SOCK_DGRAM ? IPPROTO_UDP : 0;
    default: return 0;
  }
}

addrinfo to_sockets(const rdma_addrinfo& hints) {
  addrinfo out{};
  if ((hints.ai_flags & RAI_PASSIVE) != 0) out.ai_flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) out.ai_flags |= AI_NUMERICHOST;
  if (hints.ai_family != AF_IB) out.ai_family = hints.ai_family;
  switch (hints.ai_qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: out.ai_socktype = SOCK_STREAM; break;
    case IBV_QPT_UD: out.ai_socktype = SOCK_DGRAM; break;
    default: break;
  }
  out.ai_protocol = protocol_of(hints, out.ai_socktype);
  return out;
}

/// Allocates with malloc(3), because programs may free and replace members of a rdma_addrinfo. False without memory.
bool copy(const void* from, socklen_t length, sockaddr*& to, socklen_t& to_length) {
  to = static_cast<sockaddr*>(std::malloc(length));
  if (to == nullptr) return false;
  std::memcpy(to, from, length);
  to_length = length;
  return true;
}

/// Parses a numeric address when AF_IB is requested.
bool wants_gid(const rdma_addrinfo& hints) {
  return (hints.ai_flags & RAI_FAMILY) != 0 && hints.ai_family == AF_IB && (hints.ai_flags & RAI_NUMERICHOST) != 0;
}

bool set_address(rdma_addrinfo& out, const rdma_addrinfo& hints, const addrinfo& found) {
  const bool passive = (found.ai_flags & AI_PASSIVE) != 0;
  sockaddr*& address = passive ? out.ai_src_addr : out.ai_dst_addr;
  socklen_t& length = passive ? out.ai_src_len : out.ai_dst_len;
  char*& name = passive ? out.ai_src_canonname : out.ai_dst_canonname;
  if (passive) out.ai_flags = RAI_PASSIVE;
  if (found.ai_canonname != nullptr) name = strdup(found.ai_canonname);
  out.ai_family = found.ai_family;
  if (!wants_gid(hints)) return copy(found.ai_addr, found.ai_addrlen, address, length);
  out.ai_family = AF_IB;
  sockaddr_storage gid{};
  to_sockaddr(*to_address(found.ai_addr), AF_IB, static_cast<uint32_t>(out.ai_port_space), gid);
  return copy(&gid, address_length(reinterpret_cast<const sockaddr*>(&gid)), address, length);
}

/// 0, an EAI_* code, or -1 with errno.
int look_up(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo& out) {
  static constexpr rdma_addrinfo kNone{};
  const addrinfo wanted = to_sockets(hints != nullptr ? *hints : kNone);
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(node, service, hints != nullptr ? &wanted : nullptr, &list); error != 0) {
    return error;
  }
  const std::unique_ptr<addrinfo, Freed> found(list);
  const rdma_addrinfo& asked = hints != nullptr ? *hints : kNone;
  out.ai_qp_type = asked.ai_qp_type;
  if (out.ai_qp_type == 0) out.ai_qp_type = found->ai_socktype == SOCK_DGRAM ? IBV_QPT_UD : IBV_QPT_RC;
  out.ai_port_space = asked.ai_port_space;
  if (out.ai_port_space == 0) out.ai_port_space = found->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
  return set_address(out, asked, *found) ? 0 : minus_one(ENOMEM);
}

/// Without a name, takes the addresses of the hints.
int take_over(const rdma_addrinfo& hints, rdma_addrinfo& out) {
  out.ai_flags = hints.ai_flags;
  out.ai_family = hints.ai_family;
  out.ai_qp_type = hints.ai_qp_type;
  out.ai_port_space = hints.ai_port_space;
  if (hints.ai_dst_len == 0) return 0;
  return copy(hints.ai_dst_addr, hints.ai_dst_len, out.ai_dst_addr, out.ai_dst_len) ? 0 : minus_one(ENOMEM);
}

}  // namespace

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints, rdma_addrinfo** res) {
  if (node == nullptr && service == nullptr && hints == nullptr) return minus_one(EINVAL);
  RdmaInfo info(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (info == nullptr) return minus_one(ENOMEM);
  const bool named = node != nullptr || service != nullptr;
  if (const int error = named ? look_up(node, service, hints, *info) : take_over(*hints, *info); error != 0) {
    return error;
  }
  if (info->ai_src_len == 0 && hints != nullptr && hints->ai_src_len != 0 &&
      !copy(hints->ai_src_addr, hints->ai_src_len, info->ai_src_addr, info->ai_src_len)) {
    return minus_one(ENOMEM);
  }
  *res = info.release();
  return 0;
}

void rdma_freeaddrinfo(rdma_addrinfo* res) {
  while (res != nullptr) {
    rdma_addrinfo* const next = res->ai_next;
    std::free(res->ai_connect);
    std::free(res->ai_route);
    std::free(res->ai_src_canonname);
    std::free(res->ai_dst_canonname);
    std::free(res->ai_src_addr);
    std::free(res->ai_dst_addr);
    std::free(res);
    res = next;
  }
}

}  // extern "C"
