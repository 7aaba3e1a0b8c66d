// Operations on queue pairs.
#pragma once

#include <cstddef>
#include <span>

#include "message/qp_messages.h"
#include "service/operation.h"

namespace uroce::service {

/// Applies a program's steps in order, up to the first that fails. Errors: those of ControlQp::modify(), EPERM.
Result<void> apply_steps(const ClientState& client, control::ControlQp& qp, std::span<const message::ModifyStep> steps);

/// Errors: EPERM.
Result<void> check_raw_packets(const ClientState& client);
/// The right to the rule. Errors: EPERM.
Result<void> check_flow(const ClientState& client, const FlowRule& rule);

/// The objects that a queue pair is made of. `srq`: null where it has none.
struct QpParts {
  std::shared_ptr<control::Pd> pd;
  std::shared_ptr<control::Cq> send_cq;
  std::shared_ptr<control::Cq> recv_cq;
  std::shared_ptr<control::ControlSrq> srq;
};
/// Errors: EINVAL (the client has no such object).
Result<QpParts> parts_of(const ClientState& client, const message::CreateQp& request);

Result<Reply> create_qp(ClientState& client, const message::CreateQp& request);
Result<Reply> modify_qp(ClientState& client, const message::ModifyQp& request, Call& call);
Result<Reply> query_qp(ClientState& client, const message::Handle& request);
Result<Reply> attach_multicast(ClientState& client, const message::Multicast& request);
Result<Reply> detach_multicast(ClientState& client, const message::Multicast& request);
Result<Reply> flow_counters(ClientState& client, const message::Handle& request);
Result<Reply> create_flow(ClientState& client, const message::CreateFlow& request);

}  // namespace uroce::service
