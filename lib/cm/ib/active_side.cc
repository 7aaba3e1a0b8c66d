#include "cm/ib/active_side.h"

#include <cerrno>

#include <fmt/format.h>

#include "base/psn.h"
#include "cm/ib/closing.h"
#include "cm/ib/repeating.h"
#include "cm/ib/transitions.h"
#include "net/address.h"

namespace uroce::cm::active_side {

namespace {

CmTransport transport_of(QpType type) {
  switch (type) {
    case QpType::uc: return CmTransport::uc;
    case QpType::xrc_initiator: return CmTransport::extended;
    default: return CmTransport::rc;
  }
}

ReqMad req_of(const CmRequest& request, uint32_t local_id, uint64_t ca_guid) {
  ReqMad m;
  m.local_id = local_id;
  m.ece_vendor = request.ece_vendor;
  m.service_id = request.service_id;
  m.ca_guid = ca_guid;
  m.qpn = request.qpn;
  m.initiator_depth = request.initiator_depth;
  m.remote_cm_timeout = request.remote_cm_timeout;
  m.transport = transport_of(request.type);
  m.flow_control = request.flow_control;
  m.psn = request.psn;
  m.local_cm_timeout = request.local_cm_timeout;
  m.pkey = request.pkey;
  m.mtu = static_cast<uint8_t>(request.path.mtu);
  m.max_cm_retries = request.max_cm_retries;
  if (m.transport == CmTransport::extended) {
    m.extended_transport = kExtendedXrc;  // A target requests nothing, and needs no limits for that.
  } else {
    m.responder_resources = request.responder_resources;
    m.retry_count = request.retry_count;
    m.rnr_retry_count = request.rnr_retry_count;
    m.srq = request.srq;
  }
  m.local_gid = request.path.sgid;
  m.remote_gid = request.path.dgid;
  m.flow_label = request.path.flow_label;
  m.traffic_class = request.path.traffic_class;
  m.hop_limit = request.path.hop_limit;
  m.ack_timeout = request.path.ack_timeout;
  m.private_data = request.private_data;
  return m;
}

CmReply reply_of(const MadHeader& header, const RepMad& rep, uint32_t qpn) {
  return {.qpn = qpn,
          .psn = rep.psn,
          .qkey = rep.qkey,
          .responder_resources = rep.responder_resources,
          .initiator_depth = rep.initiator_depth,
          .rnr_retry_count = rep.rnr_retry_count,
          .ack_delay = rep.ack_delay,
          .flow_control = rep.flow_control,
          .srq = rep.srq,
          .ece_vendor = rep.ece_vendor,
          .ece_options = header.modifier,
          .private_data = copy_of(rep.private_data)};
}

}  // namespace

Result<void> check(const CmRequest& request) {
  const auto within = [](std::string_view what, uint64_t value, uint64_t most) -> Result<void> {
    if (value <= most) return {};
    return fail(EINVAL, fmt::format("connect: {} {} is out of range; the most is {}", what, value, most));
  };
  if (auto fits = request.type == QpType::ud ? check_private(request.private_data, kSidrReqPrivate, "SIDR_REQ")
                                             : check_private(request.private_data, kReqPrivate, "REQ");
      !fits) {
    return fits;
  }
  if (net::is_unspecified(request.path.dgid) || net::is_multicast(request.path.dgid)) {
    return fail(EINVAL,
                fmt::format("connect: {} is not the unicast address of a host", net::to_text(request.path.dgid)));
  }
  if (request.type != QpType::ud && request.qpn < 2) {
    return fail(EINVAL,
                fmt::format("connect: queue pair {} is reserved; pass one that the application created", request.qpn));
  }
  const auto mtu = static_cast<uint8_t>(request.path.mtu);
  if (mtu < 1 || mtu > 5)
    return fail(EINVAL, fmt::format("connect: path MTU code {} is out of range; use 1 to 5", mtu));
  struct Limit {
    std::string_view what;
    uint64_t value, most;
  };
  for (const auto& [what, value, most] :
       {Limit{"queue pair number", request.qpn, 0xffffff}, Limit{"first PSN", request.psn, Psn::kMask},
        Limit{"retry count", request.retry_count, 7}, Limit{"RNR retry count", request.rnr_retry_count, 7},
        Limit{"CM retry count", request.max_cm_retries, 15},
        Limit{"remote CM timeout code", request.remote_cm_timeout, 31},
        Limit{"local CM timeout code", request.local_cm_timeout, 31},
        Limit{"ACK timeout code", request.path.ack_timeout, 31}, Limit{"flow label", request.path.flow_label, 0xfffff},
        Limit{"ECE vendor", request.ece_vendor, 0xffffff}}) {
    if (auto fits = within(what, value, most); !fits) return fits;
  }
  return {};
}

CmOutcome connect(CmContext& ctx, CmConnection& c, CmActions& actions) {
  c.state = CmState::req_sent;
  c.last = make_mad(c.transaction_id, req_of(c.request, c.id, ctx.ca_guid), c.request.ece_options);
  ctx.counters.req_sent.add();
  send_last(c, actions);
  return repeat_until_answered(c, c.request.remote_cm_timeout);
}

bool expects_reps(const CmConnection& c, const Gid& source) {
  const bool over = c.state == CmState::closed && !c.last;
  return c.active && !c.ud() && !over && c.path().dgid == source;
}

uint32_t queue_pair_of(const RepMad& rep, QpType type) {
  return type == QpType::xrc_initiator ? rep.ee_context : rep.qpn;
}

CmOutcome on_rep(CmContext& ctx, CmConnection& c, const MadHeader& header, const RepMad& rep, CmActions& actions) {
  ctx.counters.rep_received.add();
  c.remote_id = rep.local_id;
  c.transaction_id = header.transaction_id;
  c.state = CmState::rep_received;
  c.delivered = false;
  c.last.reset();
  c.remote_qpn = queue_pair_of(rep, c.request.type);
  c.remote_psn = rep.psn;
  c.reply = reply_of(header, rep, c.remote_qpn);
  if (CmMessage* const event = tell(c, CmEventKind::reply, actions)) event->reply = c.reply;
  return {.timer = CmOutcome::Timer::stop, .keys = CmOutcome::Keys::enter};
}

CmOutcome on_stale_rep(CmContext& ctx, CmConnection& c, const MadHeader& header, const RepMad& rep,
                       CmActions& actions) {
  ctx.counters.rep_received.add();
  c.remote_id = rep.local_id;
  c.transaction_id = header.transaction_id;
  closing::send_rej(ctx, c, RejReason::stale_connection, {}, {}, actions);
  if (CmMessage* const event = tell(c, CmEventKind::rejected, actions)) {
    event->reason = static_cast<uint16_t>(RejReason::stale_connection);
  }
  return keep_answer(c, c.interval);
}

/// The peer did not get our answer (RTU, MRA or REJ): send it again. Without an answer yet, send an MRA if the
/// application has received the reply's event.
CmOutcome on_later_rep(CmContext& ctx, CmConnection& c, const RepMad& rep, CmActions& actions) {
  if (c.remote_id != rep.local_id) {
    ctx.counters.out_of_state.add();
    return {};
  }
  ctx.counters.duplicates.add();
  const bool answers =
      c.state == CmState::rep_received || c.state == CmState::established || c.state == CmState::closed;
  return answers && c.last ? send_again(ctx, c, actions) : repeating::ask_for_time(ctx, c, actions);
}

Result<CmOutcome> ready(CmContext& ctx, CmConnection& c, std::span<const std::byte> private_data, CmActions& actions) {
  auto ok = check_private(private_data, kRtuPrivate, "RTU");
  if (ok) ok = check_state(c, "ready", {CmState::rep_received});
  if (!ok) return std::unexpected(ok.error());
  c.state = CmState::established;
  c.last = make_mad(c.transaction_id, RtuMad{c.id, c.remote_id, private_data});
  ctx.counters.rtu_sent.add();
  send_last(c, actions);
  return CmOutcome{};
}

}  // namespace uroce::cm::active_side
