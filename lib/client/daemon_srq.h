// A shared receive queue that the daemon keeps.
#pragma once

#include <memory>
#include <vector>

#include <uroce/error.h>

#include "client/context_interface.h"
#include "client/device_link.h"
#include "client/shared_receive_queue.h"
#include "message/queue_messages.h"

namespace uroce::client {

/// The queue of the daemon's `reply`, as the application uses it. `uses`: what it keeps alive.
Result<std::shared_ptr<SrqImpl>> publish_srq(ContextImpl& context, const std::shared_ptr<DeviceLink>& link,
                                             Result<message::CreateSrqReply> reply, std::vector<Object> uses, bool xrc);

}  // namespace uroce::client
