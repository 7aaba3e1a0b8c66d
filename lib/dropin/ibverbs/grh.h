// The 40 bytes before a UD message: an IPv6 header, or an IPv4 header in the last 20 of them (IBTA annex A17, 17.4.1).
#pragma once

#include <infiniband/verbs.h>

#include <span>

#include <uroce/error.h>
#include <uroce/types.h>

namespace uroce::dropin {

/// The address of the sender, for a reply. `gids` is the table that the destination is looked up in. Errors:
/// EPROTONOSUPPORT (no header of RoCE v2), EINVAL (sent to a group), ENOENT (sent to an address that is not in the
/// table).
Result<AddressVector> route_back(const ibv_grh& grh, std::span<const Gid> gids);

}  // namespace uroce::dropin
