// The operator's operations: lists of clients and of their objects, captures, and a successor's request.
#pragma once

#include <cstddef>
#include <vector>

#include "message/device_messages.h"
#include "message/operator_messages.h"
#include "message/succession_messages.h"
#include "service/operation.h"

namespace uroce::service {

Result<Reply> list_clients(ClientState& client, const message::ListClients& request);
Result<Reply> list_left(ClientState& client, const message::ListLeft& request);
Result<Reply> list_history(ClientState& client, const message::ListHistory& request);
Result<Reply> list_users(ClientState& client, const message::ListUsers& request);
Result<Reply> list_peers(ClientState& client, const message::ListPeers& request);
Result<Reply> list_engines(ClientState& client, const message::Empty& request);
Result<Reply> list_objects(ClientState& client, const message::ListObjects& request);
Result<Reply> list_faults(ClientState& client, const message::ListFaults& request);
Result<Reply> add_faults(ClientState& client, const message::AddFaults& request);
Result<Reply> clear_faults(ClientState& client, const message::ClearFaults& request);
Result<Reply> start_capture(ClientState& client, const message::OpenDevice& request);
Result<Reply> restart_row(ClientState& client, const message::Empty& request);
/// Behind the reply the connection is the successor's (Client::be_replaced()).
Result<Reply> take_over(ClientState& client, const message::TakeOver& request);

/// Any thread.
message::ClientRow row_of(const ClientState& client);

}  // namespace uroce::service
