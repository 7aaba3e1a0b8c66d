// The passive side of a connection: it receives a REQ, sends a REP and receives an RTU.
#pragma once

#include <cstdint>
#include <optional>

#include <uroce/error.h>
#include <uroce/types.h>

#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm::passive_side {

/// Why a REQ must be rejected before any listener sees it.
std::optional<RejReason> fault_of(const ReqMad& req, const Gid& source, const Gid& destination);
CmArrival arrival_of(const MadHeader& header, const ReqMad& req, uint64_t listener);
/// A REQ or SIDR_REQ becomes the new connection `c`.
CmOutcome on_arrival(CmConnection& c, CmArrival arrival, CmActions& actions);
/// `c` came with this REQ, whose sender and id it has.
bool is_of(const CmConnection& c, const ReqMad& req);
CmOutcome on_repeated_req(CmContext& ctx, CmConnection& c, const MadHeader& header, CmActions& actions);
/// Sends the REP, or the SIDR_REP.
Result<CmOutcome> accept(CmContext& ctx, CmConnection& c, const CmReply& reply, CmActions& actions);
/// Packets of the peer came before its RTU.
Result<CmOutcome> notify_established(CmConnection& c, CmActions& actions);
CmOutcome on_rtu(CmContext& ctx, CmConnection& c, const RtuMad& rtu, CmActions& actions);

}  // namespace uroce::cm::passive_side
