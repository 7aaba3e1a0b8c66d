// Service id resolution for datagrams (IBTA vol. 1, 12.11): one SIDR_REQ, one SIDR_REP, no connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm::sidr {

/// Sends the SIDR_REQ of a new record, which has its request and its transaction id.
CmOutcome connect(CmContext& ctx, CmConnection& c, CmActions& actions);
CmOutcome on_rep(CmContext& ctx, CmConnection& c, const SidrRepMad& rep, CmActions& actions);

/// The answer where nobody listens.
Mad no_service(const MadHeader& header, const SidrReqMad& req);
/// `path`: the way of the answer.
CmArrival arrival_of(const MadHeader& header, const SidrReqMad& req, const CmPath& path, uint64_t listener);
CmOutcome on_repeated_req(CmContext& ctx, const CmConnection& c, CmActions& actions);
CmOutcome answer(CmContext& ctx, CmConnection& c, const CmReply& reply, CmActions& actions);
CmOutcome reject(CmContext& ctx, CmConnection& c, std::span<const std::byte> info,
                 std::span<const std::byte> private_data, CmActions& actions);

}  // namespace uroce::cm::sidr
