// Writes the objects of a program for a daemon that takes over, and makes those that another daemon had (estate.h).
#pragma once

#include <span>

#include <uroce/error.h>

#include "service/client_state.h"
#include "service/estate.h"

namespace uroce::service {

/// Adds the rows of a program and its devices. No engine moves, and no request of the program is served. Errors:
/// EOPNOTSUPP, naming what cannot be handed over; EMFILE. The estate then has a part of the rows.
Result<void> bequeath(const Program& program, std::span<ClientState* const> devices, EstateWriter& estate);

/// Opens the device of the row, and makes the objects that follow, up to the next device or program. The engines are
/// paused. After an error the client has some of them, and is to be ended. Errors: EPROTO (the rows make no sense),
/// ENODEV (no such device), those of the calls that make such objects.
Result<void> inherit(ClientState& client, const DeviceRow& row, EstateReader& estate);

}  // namespace uroce::service
