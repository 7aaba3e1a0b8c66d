#include "service/qp_operations.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/qkey.h"
#include "base/wr_opcodes.h"
#include "control/cq.h"
#include "control/device_limits.h"
#include "control/flow.h"
#include "control/qp.h"
#include "control/srq.h"
#include "service/place_of.h"
#include "service/qp_step_text.h"

namespace uroce::service {
namespace {

/// An engine has so much for each work request that may be posted, beside the queue.
constexpr uint64_t kEngineBytesOfRequest = 128;

/// Refuses values that the message carries and the enumeration does not have. Programs leave what `mask` does not name
/// as it is: ibv_xsrq_pingpong does not initialise it.
Result<void> check_states(const QpAttr& attr, QpAttrMask mask) {
  const std::pair<QpAttrBit, QpState> states[] = {{QpAttrBit::state, attr.state},
                                                  {QpAttrBit::cur_state, attr.cur_state}};
  for (const auto& [bit, state] : states) {
    if (!mask.has(bit) || state <= QpState::error) continue;
    return fail(EINVAL, fmt::format("unknown QP state {}; it must be 0 to {}", static_cast<uint32_t>(state),
                                    static_cast<uint32_t>(QpState::error)));
  }
  return {};
}

Result<void> check_qkey(const ClientState& client, const QpAttr& attr, QpAttrMask mask) {
  if (!mask.has(QpAttrBit::qkey) || (attr.qkey & kControlledQkey) == 0 || client.peer.privileged) return {};
  return fail(EPERM, fmt::format("Q_Key {:#x} has the high bit set, which is for privileged programs (IBTA vol. 1, "
                                 "10.2.5); choose one below {:#x}",
                                 attr.qkey, kControlledQkey));
}

void note_steps(const ClientState& client, const control::ControlQp& qp, std::span<const message::ModifyStep> steps) {
  const std::string text = steps_text(steps);
  if (text.empty()) return;
  client.server.history().note(client.program.id, client.peer,
                               {.device = client.session->device()->config().name,
                                .qpn = qp.qpn(),
                                .text = fmt::format("queue pair {:#x}: {}", qp.qpn(), text)},
                               std::chrono::steady_clock::now());
}

}  // namespace

// Raw packets are the port's, and reach every program on it: they need the right that the kernel asks for.
Result<void> check_raw_packets(const ClientState& client) {
  if (client.may_have_raw_packets()) return {};
  return fail(EPERM, fmt::format("raw packet queue pairs are for programs with CAP_NET_RAW in the daemon's user "
                                 "namespace, proved by a packet socket, not for process {} of user {}: {}; run it as "
                                 "root, update its uroce library, or set raw_packets in the user's [[user]] entry",
                                 client.peer.pid, client.peer.uid, client.program.proof_refusal));
}

// A sniffer sees the data of all clients, as a capture does, and is restricted likewise.
Result<void> check_flow(const ClientState& client, const FlowRule& rule) {
  if (auto ok = check_raw_packets(client); !ok) return ok;
  if (rule.type != FlowType::sniffer || client.peer.privileged) return {};
  return fail(EPERM, fmt::format("a sniffer is for root and the daemon's own user, not for user {}, or for a "
                                 "container's root; use rules that name the frames",
                                 client.peer.uid));
}

Result<QpParts> parts_of(const ClientState& client, const message::CreateQp& request) {
  auto pd = client.pds.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto send_cq = client.cqs.find(request.send_cq);
  if (!send_cq) return std::unexpected(send_cq.error());
  auto recv_cq = client.cqs.find(request.recv_cq);
  if (!recv_cq) return std::unexpected(recv_cq.error());
  std::shared_ptr<control::ControlSrq> srq;
  if (request.srq != 0) {
    auto found = client.srqs.find(request.srq);
    if (!found) return std::unexpected(found.error());
    srq = std::move(*found);
  }
  return QpParts{std::move(*pd), std::move(*send_cq), std::move(*recv_cq), std::move(srq)};
}

Result<Reply> create_qp(ClientState& client, const message::CreateQp& request) {
  auto charge = client.charge(Resource::qp);
  if (!charge) return std::unexpected(charge.error());
  if (!is_known(request.type)) {
    return fail(
        EINVAL,
        fmt::format("unknown QP type {}; it must be 2 (RC), 3 (UC), 4 (UD), 8 (raw packet) or 9 (XRC initiator)",
                    static_cast<uint32_t>(request.type)));
  }
  if (request.type == QpType::raw_packet) {
    if (auto ok = check_raw_packets(client); !ok) return std::unexpected(ok.error());
  }
  auto parts = parts_of(client, request);
  if (!parts) return std::unexpected(parts.error());
  const QpInit init{.type = request.type,
                    .cap = request.cap,
                    .signal_all = request.signal_all,
                    .engine = request.engine,
                    .retransmission = request.retransmission,
                    .congestion_control = request.congestion_control};
  const uint64_t requests = std::min(request.cap.max_send_wr, control::kMaxQpWr);
  const auto room = client.user->take_memory(requests * kEngineBytesOfRequest, client.peer);
  if (!room) return std::unexpected(room.error());
  auto qp = client.session->create_qp(std::move(parts->pd), std::move(parts->send_cq), std::move(parts->recv_cq), init,
                                      std::move(parts->srq));
  if (!qp) return std::unexpected(qp.error());
  if (auto changed = apply_steps(client, **qp, request.steps); !changed) return std::unexpected(changed.error());
  const auto& ring = (*qp)->doorbell_ring();
  message::CreateQpReply answer{.qpn = (*qp)->qpn(),
                                .engine = (*qp)->engine(),
                                .cap = (*qp)->cap(),
                                .place = place_of((*qp)->memory()),
                                .doorbells = ring.large != nullptr ? place_of(*ring.large) : message::Place{},
                                .doorbell_entries = ring.entries};
  answer.id = client.qps.add(std::move(*qp), std::move(*charge));
  return reply(client, answer);
}

Result<void> apply_steps(const ClientState& client, control::ControlQp& qp,
                         std::span<const message::ModifyStep> steps) {
  if (steps.size() > message::kMaxModifySteps) {
    return fail(EINVAL, fmt::format("a modify of queue pair {:#x} has {} steps; one call takes at most {}", qp.qpn(),
                                    steps.size(), message::kMaxModifySteps));
  }
  for (const message::ModifyStep& step : steps) {
    if (auto ok = check_states(step.attr, step.mask); !ok) return ok;
    if (auto ok = check_qkey(client, step.attr, step.mask); !ok) return ok;
    if (auto changed = qp.modify(step.attr, step.mask); !changed) return changed;
  }
  note_steps(client, qp, steps);
  return {};
}

Result<Reply> modify_qp(ClientState& client, const message::ModifyQp& request, Call& call) {
  auto qp = client.qps.find(request.qp);
  if (!qp) return std::unexpected(qp.error());
  call.qpn = (*qp)->qpn();
  return done(apply_steps(client, **qp, request.steps));
}

Result<Reply> query_qp(ClientState& client, const message::Handle& request) {
  auto qp = client.qps.find(request.id);
  if (!qp) return std::unexpected(qp.error());
  auto attr = (*qp)->query();
  if (!attr) return std::unexpected(attr.error());
  return reply(client, *attr);
}

Result<Reply> attach_multicast(ClientState& client, const message::Multicast& request) {
  auto qp = client.qps.find(request.qp);
  if (!qp) return std::unexpected(qp.error());
  return done((*qp)->attach_multicast(Gid{request.gid}));
}

Result<Reply> detach_multicast(ClientState& client, const message::Multicast& request) {
  auto qp = client.qps.find(request.qp);
  if (!qp) return std::unexpected(qp.error());
  return done((*qp)->detach_multicast(Gid{request.gid}));
}

Result<Reply> create_flow(ClientState& client, const message::CreateFlow& request) {
  auto charge = client.charge(Resource::flow);
  if (!charge) return std::unexpected(charge.error());
  control::Flow::Table table;
  for (const uint32_t id : request.qps) {
    auto qp = client.qps.find(id);
    if (!qp) return std::unexpected(qp.error());
    table.push_back(std::move(*qp));
  }
  if (auto ok = check_flow(client, request.rule); !ok) return std::unexpected(ok.error());
  auto flow = control::Flow::create(std::move(table), request.rule, request.hash);
  if (!flow) return std::unexpected(flow.error());
  return reply(client, message::Handle{client.flows.add(std::move(*flow), std::move(*charge))});
}

Result<Reply> flow_counters(ClientState& client, const message::Handle& request) {
  auto flow = client.flows.find(request.id);
  if (!flow) return std::unexpected(flow.error());
  return reply(client, (*flow)->counters());
}

}  // namespace uroce::service
