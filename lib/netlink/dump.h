// Lists that the kernel gives by netlink(7), each asked for once.
#pragma once

#include <libmnl/libmnl.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::netlink {

/// Asks for all entries of a list (NLM_F_DUMP), and calls `take(message, out)` for each. `bus`: NETLINK_ROUTE, for
/// example. `type`: of the request. `request`: what follows its header. Waits at most a second for each part. False:
/// the kernel does not tell, or not all.
bool dump(int bus, uint16_t type, std::span<const std::byte> request, mnl_cb_t take, void* out);

}  // namespace uroce::netlink
