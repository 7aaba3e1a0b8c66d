// Connections by a connection manager of this process.
#pragma once

#include <memory>

#include "cm/manager.h"
#include "control/device.h"

namespace uroce::client {

class CmImpl;

/// The implementation of a ConnectionManager over `manager`, which it may outlive. `device`: one of the manager's.
std::shared_ptr<CmImpl> make_in_process_cm(cm::Manager& manager, std::shared_ptr<control::Device> device);

}  // namespace uroce::client
