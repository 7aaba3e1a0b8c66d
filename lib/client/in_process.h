// Opening a device of this process.
#pragma once

#include <memory>

#include <uroce/error.h>

#include "control/device.h"

namespace uroce::client {

class ContextImpl;

/// The implementation of a Context over a device in this process. Errors: those of DeviceSession::open().
Result<std::shared_ptr<ContextImpl>> make_in_process_context(const std::shared_ptr<control::Device>& device);

}  // namespace uroce::client
