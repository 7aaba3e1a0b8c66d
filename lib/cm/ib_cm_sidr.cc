// Service id resolution for datagrams (IBTA vol. 1, 12.11): one SIDR_REQ, one SIDR_REP, no connection.
#include "cm/ib_cm_impl.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kNoService = 1;

}  // namespace

void IbCm::Impl::connect_sidr(CmRecord& r, Nanos now) {
  r.state = CmState::sidr_sent;
  r.last = make_mad(r.transaction_id, SidrReqMad{r.id, r.request.pkey, r.request.service_id, r.request.private_data});
  repeat_until_answered(r, r.request.remote_cm_timeout, now);
  send(r.path(), *r.last, counters.sidr_req_sent);
}

void IbCm::Impl::on_sidr_rep(const Gid& source, const SidrRepMad& rep) {
  CmRecord* r = record(rep.request_id);
  if (r == nullptr || !r->active || !r->ud() || r->path().dgid != source) return count_unknown(source);
  if (r->state != CmState::sidr_sent) return counters.duplicates.add();
  if (rep.status == 0 && rep.qpn < 2) return counters.malformed.add();
  counters.sidr_rep_received.add();
  close(*r);
  r->reply = {.qpn = rep.qpn, .qkey = rep.qkey, .sidr_status = rep.status, .private_data = copy_of(rep.private_data)};
  r->remote_qpn = rep.qpn;
  raise_event(*r, {.kind = rep.status == 0 ? CmEventKind::established : CmEventKind::rejected,
                   .reply = r->reply,
                   .reason = rep.status,
                   .info = copy_of(rep.info),
                   .private_data = copy_of(rep.private_data)});
}

void IbCm::Impl::on_sidr_req(const Gid& source, const Gid& destination, const MadHeader& header,
                             const SidrReqMad& req) {
  if (CmRecord* r = find_peer(PeerKey::Space::sidr, req.request_id, source)) {
    counters.duplicates.add();
    if (r->last) send_again(*r);
    return;
  }
  counters.sidr_req_received.add();
  const CmPath path{.sgid = destination, .dgid = source};
  const std::shared_ptr<Listener> listener = listener_of(req.service_id);
  if (!listener) {
    counters.no_listener.add();
    const SidrRepMad rep{.request_id = req.request_id, .status = kNoService, .service_id = req.service_id};
    return send(path, make_mad(header.transaction_id, rep), counters.sidr_rep_sent);
  }
  CmRecord* r = add_request(listener, {.service_id = req.service_id,
                                       .type = QpType::ud,
                                       .path = path,
                                       .pkey = req.pkey,
                                       .private_data = copy_of(req.private_data)});
  if (r == nullptr) return;
  r->state = CmState::sidr_received;
  r->remote_id = req.request_id;
  r->transaction_id = header.transaction_id;
  add_key(*r, PeerKey::Space::sidr, req.request_id);
  raise_event(*r, {.kind = CmEventKind::request, .listener = listener->token, .request = r->request});
}

/// Keeps the answer for a while, because the peer repeats its request until it gets one.
void IbCm::Impl::answer_sidr(CmRecord& r, const CmReply& reply, std::span<const std::byte> info, Nanos now) {
  r.last = make_mad(r.transaction_id, SidrRepMad{.request_id = r.remote_id,
                                                 .status = reply.sidr_status,
                                                 .qpn = reply.qpn,
                                                 .service_id = r.request.service_id,
                                                 .qkey = reply.qkey,
                                                 .info = info,
                                                 .private_data = reply.private_data});
  keep_answer(r, cm_time(kSidrLinger), now);
  send(r.path(), *r.last, counters.sidr_rep_sent);
}

}  // namespace uroce::cm
