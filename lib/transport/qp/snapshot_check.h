// Do the fields of a queue pair that was read from a snapshot agree with each other?
#pragma once

#include <optional>
#include <string>

#include "transport/qp/qp.h"

namespace uroce::transport {

/// Everything that the transport takes for granted about a QP and that no single field shows. Returns what does not
/// hold, beginning with the field's name.
std::optional<std::string> find_contradiction(const Qp& qp);
/// May the template stand in front of packets?
bool is_plausible(const wire::RouteTemplate& route);

}  // namespace uroce::transport
