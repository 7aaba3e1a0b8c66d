// Operations on queue pairs.
#pragma once

#include "message/qp_messages.h"
#include "service/operation.h"

namespace uroce::service {

Result<Reply> create_qp(ClientState& client, const message::CreateQp& request);
Result<Reply> modify_qp(ClientState& client, const message::ModifyQp& request);
Result<Reply> query_qp(ClientState& client, const message::Handle& request);
Result<Reply> attach_multicast(ClientState& client, const message::Multicast& request);
Result<Reply> detach_multicast(ClientState& client, const message::Multicast& request);
Result<Reply> flow_counters(ClientState& client, const message::Handle& request);
Result<Reply> create_flow(ClientState& client, const message::CreateFlow& request);

}  // namespace uroce::service
