// The active side: sends REQ, receives REP, sends RTU.
#include <cerrno>

#include <fmt/format.h>

#include "base/psn.h"
#include "cm/ib_cm_impl.h"
#include "net/address.h"

namespace uroce::cm {

namespace {

/// Checks that the values fit the fields of a REQ or SIDR_REQ.
Result<void> check_request(const CmRequest& request) {
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

uint32_t queue_pair_of(const RepMad& rep, QpType type) {
  return type == QpType::xrc_initiator ? rep.ee_context : rep.qpn;
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

Result<uint32_t> IbCm::Impl::connect(const CmRequest& request, Nanos now) {
  if (auto good = check_request(request); !good) return std::unexpected(good.error());
  CmRecord* r = add_record();
  if (r == nullptr) {
    return fail(ENOMEM, fmt::format("connect: all {} connections are in use; raise max_connections, or close some",
                                    config.max_connections));
  }
  r->active = true;
  r->request = request;
  r->local_qpn = request.qpn;
  r->transaction_id = transaction_ids.next();
  const uint32_t id = r->id;
  if (request.type == QpType::ud) {
    connect_sidr(*r, now);
    return id;
  }
  r->state = CmState::req_sent;
  r->last = make_mad(r->transaction_id, req_of(request, id, config.ca_guid), request.ece_options);
  repeat_until_answered(*r, request.remote_cm_timeout, now);
  send(r->path(), *r->last, counters.req_sent);
  return id;
}

void IbCm::Impl::on_rep(const Gid& source, const Gid& destination, const MadHeader& header, const RepMad& rep,
                        Nanos now) {
  const CmPath back{.sgid = destination, .dgid = source};
  CmRecord* r = record(rep.remote_id);
  const bool over = r != nullptr && r->state == CmState::closed && !r->last;
  if (r == nullptr || over || !r->active || r->ud() || r->path().dgid != source) {
    // 12.9.8.2: reject the REP, so that the peer does not wait for an RTU.
    count_unknown(source);
    return refuse(back, header,
                  {.local_id = rep.remote_id,
                   .remote_id = rep.local_id,
                   .answered = CmAnswered::rep,
                   .reason = static_cast<uint16_t>(RejReason::invalid_comm_id)});
  }
  if (r->state != CmState::req_sent) {
    if (r->remote_id != rep.local_id) return counters.out_of_state.add();
    return on_repeated_rep(*r);
  }
  const uint32_t qpn = queue_pair_of(rep, r->request.type);
  if (rep.local_id == 0 || qpn < 2) return counters.malformed.add();
  counters.rep_received.add();
  r->remote_id = rep.local_id;
  r->transaction_id = header.transaction_id;
  CmRecord* stale = find_peer(PeerKey::Space::comm_id, rep.local_id, source);
  if (stale == nullptr) stale = find_peer(PeerKey::Space::qpn, qpn, source);
  if (stale != nullptr) {
    send_rej(*r, RejReason::stale_connection, {}, {});
    keep_answer(*r, r->interval, now);
    end_stale(*stale, now);
    return raise_event(*r,
                       {.kind = CmEventKind::rejected, .reason = static_cast<uint16_t>(RejReason::stale_connection)});
  }
  timers.cancel(r->timer);
  r->state = CmState::rep_received;
  r->delivered = false;
  r->last.reset();
  r->reply = reply_of(header, rep, qpn);
  r->remote_qpn = qpn;
  r->remote_psn = rep.psn;
  add_key(*r, PeerKey::Space::comm_id, rep.local_id);
  add_key(*r, PeerKey::Space::qpn, qpn);
  raise_event(*r, {.kind = CmEventKind::reply, .reply = r->reply});
}

/// The peer did not get our answer (RTU, MRA or REJ): send it again. Without an answer yet, send an MRA if the
/// application has received the reply's event.
void IbCm::Impl::on_repeated_rep(CmRecord& r) {
  counters.duplicates.add();
  const bool answers =
      r.state == CmState::rep_received || r.state == CmState::established || r.state == CmState::closed;
  if (answers && r.last) return send_again(r);
  ask_for_time(r);
}

Result<void> IbCm::Impl::ready(uint32_t id, std::span<const std::byte> private_data, Nanos) {
  if (auto fits = check_private(private_data, kRtuPrivate, "RTU"); !fits) return fits;
  const auto r = record_in(id, "ready", {CmState::rep_received});
  if (!r) return std::unexpected(r.error());
  (*r)->state = CmState::established;
  (*r)->last = make_mad((*r)->transaction_id, RtuMad{id, (*r)->remote_id, private_data});
  send((*r)->path(), *(*r)->last, counters.rtu_sent);
  return {};
}

}  // namespace uroce::cm
