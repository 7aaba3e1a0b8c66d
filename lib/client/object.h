// The device's side of an object, behind a handle's.
#pragma once

#include <memory>

namespace uroce::client {

/// Owns the device's side of an object; the last reference destroys it.
using Object = std::shared_ptr<void>;

}  // namespace uroce::client
