// A client's objects as the operator sees them: names and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "message/operator_messages.h"
#include "service/client_state.h"
#include "service/sight.h"

namespace uroce::service {

/// Rows of the client's objects after `after`, at most `most`, with keys and PSNs if `sight` allows. Kinds without a
/// list have no rows. Any thread.
std::vector<message::ObjectRow> object_rows_of(const ClientState& client, message::Kind kind, uint32_t after,
                                               std::size_t most, const Sight& sight);

}  // namespace uroce::service
