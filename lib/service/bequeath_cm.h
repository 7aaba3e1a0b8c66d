// Writes what the connection manager has for a daemon that takes over, and goes on with what another one had
// (bequeath.h). The manager is paused.
#pragma once

#include <span>

#include <uroce/error.h>

#include "cm/manager.h"
#include "service/client_state.h"
#include "service/estate.h"

namespace uroce::service {

/// The manager's own part, before all programs.
void bequeath(cm::Manager& manager, EstateWriter& estate);
/// The part of one program, after its devices. Errors: EMFILE.
Result<void> bequeath_connections(const Program& program, std::span<ClientState* const> devices, EstateWriter& estate);

/// Reads the manager's own part, if there is one. Errors: EPROTO (its rows do not decode). `refused`: why connections
/// are left out, if any are.
Result<void> inherit(cm::Manager& manager, EstateReader& estate, Result<void>& refused);
/// Reads the part of one program, if there is one. After an error the program is to be ended. Errors: EPROTO, and those
/// of the calls that make such objects.
Result<void> inherit_connections(Program& program, std::span<ClientState* const> devices, EstateReader& estate);

}  // namespace uroce::service
