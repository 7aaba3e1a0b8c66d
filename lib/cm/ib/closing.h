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
/// A message of the peer shows that it has forgotten this connection.
CmOutcome end_stale(CmContext& ctx, CmConnection& c, CmActions& actions);
/// The application gives the connection up.
CmOutcome destroy(CmContext& ctx, CmConnection& c, CmActions& actions);

CmOutcome on_rej(CmContext& ctx, CmConnection& c, const RejMad& rej, CmActions& actions);
CmOutcome on_dreq(CmContext& ctx, CmConnection& c, const DreqMad& dreq, const Mad& drep, CmActions& actions);
CmOutcome on_drep(CmContext& ctx, CmConnection& c, const DrepMad& drep, CmActions& actions);

}  // namespace uroce::cm::closing
