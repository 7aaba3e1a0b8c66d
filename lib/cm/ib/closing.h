// The end of a connection: REJ, DREQ and DREP, a peer that has forgotten it, and destroy().
#pragma once

#include <cstddef>
#include <span>

#include <uroce/error.h>
#include <uroce/types.h>

#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm::closing {

void send_rej(CmContext& ctx, CmConnection& c, RejReason reason, std::span<const std::byte> info,
              std::span<const std::byte> private_data, CmActions& actions);
/// A REJ with reason timeout.
void send_timeout_rej(CmContext& ctx, const CmConnection& c, CmActions& actions);

Result<CmOutcome> reject(CmContext& ctx, CmConnection& c, RejReason reason, std::span<const std::byte> info,
                         std::span<const std::byte> private_data, CmActions& actions);
Result<CmOutcome> disconnect(CmContext& ctx, CmConnection& c, std::span<const std::byte> private_data,
                             CmActions& actions);
/// A message with the CA GUID `guid` says that the peer has forgotten this connection (12.9.8.3.1). Any host can forge
/// that, so the peer is asked: it answers the passive side's REP by its RTU as long as it has the connection.
/// Nothing makes the passive side of a connection answer, so an active one stays, and its requests find out.
CmOutcome on_stale(CmContext& ctx, CmConnection& c, uint64_t guid, CmActions& actions);
/// The peer's RTU: it still has the connection.
CmOutcome on_probe_answer(CmConnection& c);
/// No RTU came.
CmOutcome end_stale(CmContext& ctx, CmConnection& c, CmActions& actions);
/// The application gives the connection up.
CmOutcome destroy(CmContext& ctx, CmConnection& c, CmActions& actions);

CmOutcome on_rej(CmContext& ctx, CmConnection& c, const RejMad& rej, CmActions& actions);
CmOutcome on_dreq(CmContext& ctx, CmConnection& c, const DreqMad& dreq, const Mad& drep, CmActions& actions);
CmOutcome on_drep(CmContext& ctx, CmConnection& c, const DrepMad& drep, CmActions& actions);

}  // namespace uroce::cm::closing
