// The passive side: receives REQ, sends REP or MRA, receives RTU.
#include <cerrno>

#include <fmt/format.h>

#include <algorithm>

#include "base/psn.h"
#include "cm/ib_cm_impl.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kFailoverNotSupported = 1;

bool wants_xrc(const ReqMad& req) {
  return req.transport == CmTransport::extended && req.extended_transport == kExtendedXrc;
}

/// Of the queue pair on this side.
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

RepMad rep_of(const CmRecord& r, uint64_t ca_guid) {
  RepMad m;
  m.local_id = r.id;
  m.remote_id = r.remote_id;
  m.qkey = r.reply.qkey;
  m.ece_vendor = r.reply.ece_vendor;
  m.psn = r.reply.psn;
  m.responder_resources = r.reply.responder_resources;
  m.ack_delay = r.reply.ack_delay;
  m.failover = r.alternate_path ? kFailoverNotSupported : 0;
  m.rnr_retry_count = r.reply.rnr_retry_count;
  if (r.request.type == QpType::xrc_target) {
    m.ee_context = r.reply.qpn;
    m.srq = true;
  } else {
    m.qpn = r.reply.qpn;
    m.initiator_depth = r.reply.initiator_depth;
    m.flow_control = r.reply.flow_control;
    m.srq = r.reply.srq;
  }
  m.ca_guid = ca_guid;
  m.private_data = r.reply.private_data;
  return m;
}

/// Why a REQ must be rejected before any listener sees it.
std::optional<RejReason> fault_of(const ReqMad& req, const Gid& source, const Gid& destination) {
  if (req.transport != CmTransport::rc && req.transport != CmTransport::uc && !wants_xrc(req)) {
    return RejReason::invalid_transport_type;
  }
  // Packets must go to the sender of the REQ, not to a third party named in it.
  if (req.local_gid != source || req.remote_gid != destination) return RejReason::primary_gid_rejected;
  if (req.mtu < 1 || req.mtu > 5) return RejReason::invalid_path_mtu;
  return std::nullopt;
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

void IbCm::Impl::on_req(const Gid& source, const Gid& destination, const MadHeader& header, const ReqMad& req,
                        Nanos now) {
  if (req.local_id == 0 || req.qpn < 2) return counters.malformed.add();
  const CmPath back{.sgid = destination, .dgid = source};
  const auto reject_with = [&](RejReason reason) {
    refuse(back, header, {.remote_id = req.local_id, .reason = static_cast<uint16_t>(reason)});
  };
  CmRecord* other = find_peer(PeerKey::Space::comm_id, req.local_id, source);
  if (other != nullptr && !other->active && other->remote_qpn == req.qpn) return on_repeated_req(*other, header);
  if (const auto fault = fault_of(req, source, destination)) {
    counters.malformed.add();
    return reject_with(*fault);
  }
  counters.req_received.add();
  if (other == nullptr) other = find_peer(PeerKey::Space::qpn, req.qpn, source);
  if (other != nullptr) {
    // 12.9.8.3.1: here the peer's queue pair is still connected, but the peer has forgotten that connection.
    reject_with(RejReason::stale_connection);
    return end_stale(*other, now);
  }
  const std::shared_ptr<Listener> listener = listener_of(req.service_id);
  if (!listener) {
    counters.no_listener.add();
    return reject_with(RejReason::invalid_service_id);
  }
  CmRecord* r = add_request(listener, request_of(header, req));
  if (r == nullptr) return;
  r->state = CmState::req_received;
  r->remote_id = req.local_id;
  r->transaction_id = header.transaction_id;
  r->alternate_path = req.has_alternate;
  add_key(*r, PeerKey::Space::comm_id, req.local_id);
  add_key(*r, PeerKey::Space::qpn, req.qpn);
  raise_event(*r, {.kind = CmEventKind::request, .listener = listener->token, .request = r->request});
}

/// The peer did not get our answer (MRA, REP or REJ): send it again. Without an answer yet, send an MRA if the
/// application has received the request's event.
void IbCm::Impl::on_repeated_req(CmRecord& r, const MadHeader& header) {
  counters.duplicates.add();
  if (r.state == CmState::dreq_sent || r.state == CmState::timewait) {
    // The peer never got the REP and waits for it in vain. If it did get it, it knows our id and ignores this REJ,
    // which does not carry that id.
    return refuse(r.path(), header,
                  {.remote_id = r.remote_id, .reason = static_cast<uint16_t>(RejReason::stale_connection)});
  }
  const bool answers = r.state == CmState::req_received || r.state == CmState::rep_sent || r.state == CmState::closed;
  if (answers && r.last) return send_again(r);
  ask_for_time(r);
}

Result<void> IbCm::Impl::accept(uint32_t id, const CmReply& reply, Nanos now) {
  const auto found = record_in(id, "accept", {CmState::req_received, CmState::sidr_received});
  if (!found) return std::unexpected(found.error());
  CmRecord& r = **found;
  if (auto good = check_reply(reply, r.ud()); !good) return good;
  stop_waiting(r);
  r.reply = reply;
  r.local_qpn = reply.qpn;
  if (r.ud()) {
    answer_sidr(r, reply, {}, now);
    return {};
  }
  r.state = CmState::rep_sent;
  r.last = make_mad(r.transaction_id, rep_of(r, config.ca_guid), reply.ece_options);
  repeat_until_answered(r, std::min(r.request.local_cm_timeout, kMaxPeerTimeout), now);
  send(r.path(), *r.last, counters.rep_sent);
  return {};
}

Result<void> IbCm::Impl::notify_established(uint32_t id, Nanos) {
  const auto r = record_in(id, "notify_established", {CmState::rep_sent, CmState::established});
  if (!r) return std::unexpected(r.error());
  if ((*r)->state == CmState::established) return {};  // the RTU arrived first
  timers.cancel((*r)->timer);
  (*r)->state = CmState::established;
  raise_event(**r, {.kind = CmEventKind::established});
  return {};
}

void IbCm::Impl::on_rtu(const Gid& source, const RtuMad& rtu) {
  CmRecord* r = known(rtu.remote_id, rtu.local_id, source);
  if (r == nullptr) return;
  if (r->active) return counters.out_of_state.add();
  if (r->state == CmState::established) return counters.duplicates.add();
  if (r->state != CmState::rep_sent) return counters.out_of_state.add();
  counters.rtu_received.add();
  timers.cancel(r->timer);
  r->last.reset();
  r->state = CmState::established;
  raise_event(*r, {.kind = CmEventKind::established, .private_data = copy_of(rtu.private_data)});
}

Result<void> IbCm::Impl::mra(uint32_t id, uint8_t timeout, std::span<const std::byte> private_data, Nanos) {
  if (auto fits = check_private(private_data, kMraPrivate, "MRA"); !fits) return fits;
  if (timeout > 31)
    return fail(EINVAL, fmt::format("mra: service timeout code {} is out of range; the most is 31", timeout));
  const auto found = record_in(id, "mra", {CmState::req_received, CmState::rep_received});
  if (!found) return std::unexpected(found.error());
  CmRecord& r = **found;
  const CmAnswered answered = r.active ? CmAnswered::rep : CmAnswered::req;
  r.last = make_mad(r.transaction_id, MraMad{id, r.remote_id, answered, timeout, private_data});
  send(r.path(), *r.last, counters.mra_sent);
  return {};
}

void IbCm::Impl::delivered(uint32_t id) {
  CmRecord* r = record(id);
  if (r == nullptr) return;
  stop_waiting(*r);
  r->delivered = true;
}

/// The peer repeats a message that the application has received but not answered: send an MRA, so that the peer does
/// not time out.
void IbCm::Impl::ask_for_time(CmRecord& r) {
  const bool waits = r.state == CmState::req_received || r.state == CmState::rep_received;
  if (r.delivered && waits && !r.last) static_cast<void>(mra(r.id, kMraTimeout, {}, {}));
}

/// The peer needs longer to answer our REQ (we do not know its id then) or REP. Granted once, so that the wait stays
/// bounded.
void IbCm::Impl::on_mra(const Gid& source, const MraMad& mra, Nanos now) {
  CmRecord* r = record(mra.remote_id);
  const bool to_req = mra.answered == CmAnswered::req;
  if (r == nullptr || r->ud() || r->path().dgid != source || (!to_req && r->remote_id != mra.local_id)) {
    return count_unknown(source);
  }
  const bool fits =
      r->state == CmState::req_sent ? to_req : r->state == CmState::rep_sent && mra.answered == CmAnswered::rep;
  if (!fits) return counters.out_of_state.add();
  if (r->mra_received) return counters.duplicates.add();
  counters.mra_received.add();
  r->mra_received = true;
  arm(*r, now + cm_time(std::min(mra.service_timeout, kMaxMraTimeout)) + round_trip(*r), now);
}

}  // namespace uroce::cm
