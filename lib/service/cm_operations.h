// The connection manager's operations: each is one call for this client's ids.
#pragma once

#include "message/cm_messages.h"
#include "service/operation.h"

namespace uroce::service {

/// Called before the program's first of these operations. Errors: EOPNOTSUPP (the daemon has no connection manager).
Result<void> open_connection_manager(Program& program);

Result<Reply> cm_create_channel(ClientState& client, const message::Empty& request);
Result<Reply> cm_destroy_channel(ClientState& client, const message::Handle& request);
Result<Reply> cm_take_events(ClientState& client, const message::Handle& request);
Result<Reply> cm_create_id(ClientState& client, const message::CmCreateId& request);
Result<Reply> cm_destroy_id(ClientState& client, const message::Handle& request);
Result<Reply> cm_info(ClientState& client, const message::Handle& request);
Result<Reply> cm_bind(ClientState& client, const message::CmBind& request);
Result<Reply> cm_resolve_addr(ClientState& client, const message::CmResolve& request);
Result<Reply> cm_resolve_route(ClientState& client, const message::Handle& request);
Result<Reply> cm_listen(ClientState& client, const message::CmListen& request);
Result<Reply> cm_connect(ClientState& client, const message::CmTerms& request, Call& call);
Result<Reply> cm_establish(ClientState& client, const message::Handle& request);
Result<Reply> cm_accept(ClientState& client, const message::CmTerms& request, Call& call);
Result<Reply> cm_reject(ClientState& client, const message::CmReject& request);
Result<Reply> cm_disconnect(ClientState& client, const message::CmDisconnect& request, Call& call);
Result<Reply> cm_notify_established(ClientState& client, const message::Handle& request);
Result<Reply> cm_qp_attr(ClientState& client, const message::CmQpAttr& request);
Result<Reply> cm_set_option(ClientState& client, const message::CmSetOption& request);
Result<Reply> cm_join(ClientState& client, const message::CmGroup& request);
Result<Reply> cm_leave(ClientState& client, const message::CmGroup& request);
Result<Reply> cm_raise_event(ClientState& client, const message::CmRaiseEvent& request);
Result<Reply> cm_migrate(ClientState& client, const message::CmMigrate& request);

}  // namespace uroce::service
