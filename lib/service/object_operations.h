// Protection domains, completion channels and queues, shared receive queues and address handles; and the end of any
// object.
#pragma once

#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "service/operation.h"

namespace uroce::service {

Result<Reply> create_pd(ClientState& client, const message::Empty& request);
Result<Reply> create_channel(ClientState& client, const message::Empty& request);
Result<Reply> create_cq(ClientState& client, const message::CreateCq& request);
Result<Reply> moderate_cq(ClientState& client, const message::ModerateCq& request);
Result<Reply> resize_cq(ClientState& client, const message::ResizeCq& request);
Result<Reply> create_srq(ClientState& client, const message::CreateSrq& request);
/// `xrc`: empty but for an XRC queue.
Result<Reply> create_srq_of(ClientState& client, const message::CreateSrq& request,
                            control::DeviceSession::XrcQueue xrc);
Result<Reply> resize_srq(ClientState& client, const message::ResizeSrq& request);
Result<Reply> create_address_handle(ClientState& client, const message::CreateAddressHandle& request);
Result<Reply> destroy(ClientState& client, const message::Destroy& request);

}  // namespace uroce::service
