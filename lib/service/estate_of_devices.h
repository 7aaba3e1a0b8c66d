// The numbers and counters of a daemon's devices, on their way to another daemon and from one (device_rows.h).
#pragma once

#include <memory>
#include <vector>

#include <uroce/error.h>

#include "control/device.h"
#include "service/estate.h"
#include "service/server_view.h"

namespace uroce::service {

using Devices = std::vector<std::shared_ptr<control::Device>>;

/// The keys and queue pair numbers to come. Engines may turn, but nobody makes or ends objects.
void bequeath_numbers(const Devices& devices, EstateWriter& estate);
/// The rest. The engines stand still.
void bequeath_devices(const ServerView& server, EstateWriter& estate);
/// Reads the rows up to the first program's. Errors: EPROTO; EINVAL (a device has other limits here).
Result<void> inherit_devices(const Devices& devices, EstateReader& estate, EarlierCounters& counters);

}  // namespace uroce::service
