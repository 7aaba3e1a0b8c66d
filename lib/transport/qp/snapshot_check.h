// Do the fields of a queue pair that was read from a snapshot agree with each other?
#pragma once

#include <optional>
#include <string>

#include "transport/core/engine_config.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Checks the relations between fields that the transport relies on, and those with the port of an engine of `config`.
/// The range of each field was checked when it was read. Returns the first relation that does not hold, beginning with
/// a field's name; no value: all hold.
std::optional<std::string> find_contradiction(const EngineConfig& config, const Qp& qp);
/// May the template stand in front of packets of this port? They are RoCE, from its Ethernet address and VLAN. Whether
/// the IP source is the port's, Engine::import_qp() asks, which knows the present addresses.
bool is_plausible(const EngineConfig& config, const wire::RouteTemplate& route);

}  // namespace uroce::transport
