#include "cm/ib/passive_side.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/psn.h"
#include "cm/ib/closing.h"
#include "cm/ib/repeating.h"
#include "cm/ib/sidr.h"
#include "cm/ib/timeouts.h"
#include "cm/ib/transitions.h"

namespace uroce::cm::passive_side {

namespace {

constexpr uint8_t kFailoverNotSupported = 1;

bool wants_xrc(const ReqMad& req) {
  return req.transport == CmTransport::extended && req.extended_transport == kExtendedXrc;
}

/// The type of the queue pair on this side.
QpType type_of(const ReqMad& req) {
  if (wants_xrc(req)) return QpType::xrc_target;
  return req.transport == CmTransport::uc ? QpType::uc : QpType::rc;
}

/// The request with the path from our point of view: sgid is ours.
CmRequest request_of(const MadHeader& header, const ReqMad& req) {
  return {.service_id = req.service_id,
          .type = type_of(req),
          .path = {.sgid = req.remote_gid,
                   .dgid = req.local_gid,
                   .traffic_class = req.traffic_class,
                   .hop_limit = req.hop_limit,
                   .flow_label = req.flow_label,
                   .mtu = static_cast<Mtu>(req.mtu),
                   .ack_timeout = req.ack_timeout},
          .qpn = req.qpn,
          .psn = req.psn,
          .responder_resources = req.responder_resources,
          .initiator_depth = req.initiator_depth,
          .retry_count = req.retry_count,
          .rnr_retry_count = req.rnr_retry_count,
          .max_cm_retries = req.max_cm_retries,
          .remote_cm_timeout = req.remote_cm_timeout,
          .local_cm_timeout = req.local_cm_timeout,
          .flow_control = req.flow_control,
          .srq = req.srq,
          .pkey = req.pkey,
          .ece_vendor = req.ece_vendor,
          .ece_options = header.modifier,
          .private_data = copy_of(req.private_data)};
}

RepMad rep_of(const CmConnection& c, uint64_t ca_guid) {
  RepMad m;
  m.local_id = c.id;
  m.remote_id = c.remote_id;
  m.qkey = c.reply.qkey;
  m.ece_vendor = c.reply.ece_vendor;
  m.psn = c.reply.psn;
  m.responder_resources = c.reply.responder_resources;
  m.ack_delay = c.reply.ack_delay;
  m.failover = c.alternate_path ? kFailoverNotSupported : 0;
  m.rnr_retry_count = c.reply.rnr_retry_count;
  if (c.request.type == QpType::xrc_target) {
    m.ee_context = c.reply.qpn;
    m.srq = true;
  } else {
    m.qpn = c.reply.qpn;
    m.initiator_depth = c.reply.initiator_depth;
    m.flow_control = c.reply.flow_control;
    m.srq = c.reply.srq;
  }
  m.ca_guid = ca_guid;
  m.private_data = c.reply.private_data;
  return m;
}

Result<void> check_reply(const CmReply& reply, bool ud) {
  if (auto fits = ud ? check_private(reply.private_data, kSidrRepPrivate, "SIDR_REP")
                     : check_private(reply.private_data, kRepPrivate, "REP");
      !fits) {
    return fits;
  }
  if (reply.qpn < 2 && reply.sidr_status == 0) {
    return fail(EINVAL,
                fmt::format("accept: queue pair {} is reserved; pass one that the application created", reply.qpn));
  }
  if (reply.qpn > 0xffffff || reply.psn > Psn::kMask || reply.ece_vendor > 0xffffff) {
    return fail(
        EINVAL,
        fmt::format("accept: queue pair number {:#x}, first PSN {:#x} and ECE vendor {:#x} must have at most 24 bits",
                    reply.qpn, reply.psn, reply.ece_vendor));
  }
  if (reply.ack_delay > 31 || reply.rnr_retry_count > 7) {
    return fail(EINVAL, fmt::format("accept: ACK delay code {} must be at most 31, RNR retry count {} at most 7",
                                    reply.ack_delay, reply.rnr_retry_count));
  }
  return {};
}

}  // namespace

std::optional<RejReason> fault_of(const ReqMad& req, const Gid& source, const Gid& destination) {
  if (req.transport != CmTransport::rc && req.transport != CmTransport::uc && !wants_xrc(req)) {
    return RejReason::invalid_transport_type;
  }
  // Packets must go to the sender of the REQ, not to a third party named in it.
  if (req.local_gid != source || req.remote_gid != destination) return RejReason::primary_gid_rejected;
  if (req.mtu < 1 || req.mtu > 5) return RejReason::invalid_path_mtu;
  return std::nullopt;
}

CmArrival arrival_of(const MadHeader& header, const ReqMad& req, uint64_t listener) {
  return {.listener = listener,
          .request = request_of(header, req),
          .remote_id = req.local_id,
          .remote_guid = req.ca_guid,
          .transaction_id = header.transaction_id,
          .alternate_path = req.has_alternate};
}

CmOutcome on_arrival(CmConnection& c, CmArrival arrival, CmActions& actions) {
  c.request = std::move(arrival.request);
  c.remote_qpn = c.request.qpn;
  c.remote_psn = c.request.psn;
  c.state = c.ud() ? CmState::sidr_received : CmState::req_received;
  c.remote_id = arrival.remote_id;
  c.remote_guid = arrival.remote_guid;
  c.transaction_id = arrival.transaction_id;
  c.alternate_path = arrival.alternate_path;
  if (CmMessage* const event = tell(c, CmEventKind::request, actions)) {
    event->listener = arrival.listener;
    event->request = c.request;
  }
  return {.keys = CmOutcome::Keys::enter};
}

bool is_of(const CmConnection& c, const ReqMad& req) { return !c.active && c.remote_qpn == req.qpn; }

/// The peer did not get our answer (MRA, REP or REJ): send it again. Without an answer yet, send an MRA if the
/// application has received the request's event.
CmOutcome on_repeated_req(CmContext& ctx, CmConnection& c, const MadHeader& header, CmActions& actions) {
  ctx.counters.duplicates.add();
  if (c.state == CmState::dreq_sent || c.state == CmState::timewait) {
    // The peer never got the REP and waits for it in vain. If it did get it, it knows our id and ignores this REJ,
    // which does not carry that id.
    const RejMad rej{.remote_id = c.remote_id, .reason = static_cast<uint16_t>(RejReason::stale_connection)};
    ctx.counters.rej_sent.add();
    actions.add<OutgoingMad>(c.path(), make_mad(header.transaction_id, rej));
    return {};
  }
  const bool answers = c.state == CmState::req_received || c.state == CmState::rep_sent || c.state == CmState::closed;
  return answers && c.last ? send_again(ctx, c, actions) : repeating::ask_for_time(ctx, c, actions);
}

Result<CmOutcome> accept(CmContext& ctx, CmConnection& c, const CmReply& reply, CmActions& actions) {
  auto ok = check_state(c, "accept", {CmState::req_received, CmState::sidr_received});
  if (ok) ok = check_reply(reply, c.ud());
  if (!ok) return std::unexpected(ok.error());
  c.reply = reply;
  c.local_qpn = reply.qpn;
  if (c.ud()) return sidr::answer(ctx, c, reply, actions);
  c.state = CmState::rep_sent;
  c.last = make_mad(c.transaction_id, rep_of(c, ctx.ca_guid), reply.ece_options);
  ctx.counters.rep_sent.add();
  send_last(c, actions);
  CmOutcome out = repeat_until_answered(c, std::min(c.request.local_cm_timeout, kMaxPeerTimeout));
  out.answered = true;
  return out;
}

Result<CmOutcome> notify_established(CmConnection& c, CmActions& actions) {
  if (auto ok = check_state(c, "notify_established", {CmState::rep_sent, CmState::established}); !ok) {
    return std::unexpected(ok.error());
  }
  if (c.state == CmState::established) return CmOutcome{};  // the RTU arrived first
  c.state = CmState::established;
  tell(c, CmEventKind::established, actions);
  return CmOutcome{.timer = CmOutcome::Timer::stop};
}

CmOutcome on_rtu(CmContext& ctx, CmConnection& c, const RtuMad& rtu, CmActions& actions) {
  if (c.active || c.state != CmState::rep_sent) {
    const bool again = !c.active && c.state == CmState::established;
    (again ? ctx.counters.duplicates : ctx.counters.out_of_state).add();
    return again && c.probe == CmProbe::asked ? closing::on_probe_answer(c) : CmOutcome{};
  }
  ctx.counters.rtu_received.add();
  c.state = CmState::established;
  if (CmMessage* const event = tell(c, CmEventKind::established, actions)) {
    event->private_data = copy_of(rtu.private_data);
  }
  return {.timer = CmOutcome::Timer::stop};
}

}  // namespace uroce::cm::passive_side
