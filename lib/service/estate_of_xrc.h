// XRC domains and target queue pairs, on their way to another daemon and from one (xrc_rows.h).
#pragma once

#include <functional>
#include <memory>
#include <span>

#include <uroce/error.h>

#include "service/client_state.h"
#include "service/estate.h"
#include "service/xrc_rows.h"

namespace uroce::service {

/// Errors: EMFILE.
Result<XrcDomainRow> row_of(const control::XrcDomain& domain, uint32_t id, EstateWriter& estate);
/// The domain of a row. Errors: those of XrcDomain::adopt(); EPROTO, EBADF, EOPNOTSUPP (its file).
Result<std::shared_ptr<control::XrcDomain>> adopt_domain(const std::shared_ptr<control::Device>& device,
                                                         const XrcDomainRow& row, EstateReader& estate);

/// The targets of these devices, which have gone over. The engines stand still. Errors: EMFILE.
Result<void> bequeath_targets(std::span<ClientState* const> clients, EstateWriter& estate);
/// Makes a target for those of its holders that `find` knows by the operator's number; it returns nullptr for others.
/// Errors: those of adopt_domain(), of the queue pair, and of a holder's budget.
Result<void> inherit_target(EstateReader& estate, const std::function<ClientState*(uint32_t)>& find);

}  // namespace uroce::service
