// The active side of a connection: it sends a REQ, receives a REP and sends an RTU.
#pragma once

#include <cstddef>
#include <span>

#include <uroce/error.h>
#include <uroce/types.h>

#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm::active_side {

/// Whether the values fit the fields of a REQ or SIDR_REQ. Errors: EINVAL.
Result<void> check(const CmRequest& request);
/// Sends the REQ of a new connection, which has its request and its transaction id.
CmOutcome connect(CmContext& ctx, CmConnection& c, CmActions& actions);
/// The connection can get a REP from `source`.
bool expects_reps(const CmConnection& c, const Gid& source);
/// The queue pair that the REP names; 0 or 1, or no id: the REP is malformed.
uint32_t queue_pair_of(const RepMad& rep, QpType type);
/// The first REP.
CmOutcome on_rep(CmContext& ctx, CmConnection& c, const MadHeader& header, const RepMad& rep, CmActions& actions);
/// The first REP, whose sender has forgotten a connection of its queue pair or id.
CmOutcome on_stale_rep(CmContext& ctx, CmConnection& c, const MadHeader& header, const RepMad& rep, CmActions& actions);
/// A REP after the first.
CmOutcome on_later_rep(CmContext& ctx, CmConnection& c, const RepMad& rep, CmActions& actions);
/// Sends the RTU.
Result<CmOutcome> ready(CmContext& ctx, CmConnection& c, std::span<const std::byte> private_data, CmActions& actions);

}  // namespace uroce::cm::active_side
