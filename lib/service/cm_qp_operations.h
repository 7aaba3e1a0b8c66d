// Calls for an id of the connection manager and its queue pair together. A program waits for no reply to them: a
// failure is an event.
#pragma once

#include <chrono>

#include "message/cm_messages.h"
#include "service/operation.h"

namespace uroce::service {

/// On the connection to the connection manager: a pass by which the program's devices find it.
Result<Reply> cm_lend(ClientState& client, const message::Empty& request);
/// On the connection of a device: `request` is a pass of the same program. Errors: EINVAL (no such pass).
Result<Reply> borrow_cm(ClientState& client, const message::CmPass& request);
Result<Reply> connect_qp(ClientState& client, const message::CmQpTerms& request);
Result<Reply> accept_qp(ClientState& client, const message::CmQpTerms& request);
Result<Reply> disconnect_qp(ClientState& client, const message::CmQpEnd& request);

/// Before the program gets the event. A queue pair that waits for its peer's answer is moved to RTS, and the RTU sent.
/// After `until` the program is left to do so, because it waits for its events.
void connect_waiting(ClientState& client, message::CmEventRecord& record, std::chrono::steady_clock::time_point until);

}  // namespace uroce::service
