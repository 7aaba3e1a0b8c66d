// Addresses in the three forms of rdma_cm: IPv4, IPv6, and AF_IB with an IP address in its GID.
#pragma once

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <optional>

#include <uroce/cm_types.h>

namespace uroce::dropin::rdmacm {

/// The default partition, full membership (IBTA volume 1, 10.9.1.2).
constexpr uint16_t kFullMember = 0xffff;

/// Size of the structure that `address` begins; 0 for null and for families that rdma_cm does not know.
socklen_t address_length(const sockaddr* address);

/// Nullopt where address_length() is 0.
std::optional<CmAddress> to_address(const sockaddr* address);

/// Stores `address` in the form of `family`; AF_UNSPEC takes the address's own family. AF_INET6 can hold an IPv4
/// address. `space` is the number of an rdma_port_space.
void to_sockaddr(const CmAddress& from, sa_family_t family, uint32_t space, sockaddr_storage& to);

/// The port, in network order; 0 for families without ports.
__be16 port_of(const sockaddr* address);

}  // namespace uroce::dropin::rdmacm
