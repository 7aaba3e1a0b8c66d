// NAKs and RNR NAKs at the requester (IBTA vol. 1, 9.7.5.2 and table 57).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `responses_missing`: responses before the NAK have not arrived. Requesting them again spends no retry, because the
/// ACK timer limits it.
Outcome on_nak(Context& ctx, Qp& qp, const wire::Packet& packet, bool responses_missing);
Outcome on_rnr_nak(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
