// Do the fields of a queue pair that was read from a snapshot agree with each other?
#pragma once

#include <optional>
#include <string>

#include "transport/qp/qp.h"

namespace uroce::transport {

/// Checks the relations between fields that the transport relies on. The range of each field was checked when it was
/// read. Returns the first relation that does not hold, beginning with a field's name; no value: all hold.
std::optional<std::string> find_contradiction(const Qp& qp);
/// May the template stand in front of packets?
bool is_plausible(const wire::RouteTemplate& route);

}  // namespace uroce::transport
