// Received messages: which connection each is for.
#include "cm/ib/active_side.h"
#include "cm/ib/closing.h"
#include "cm/ib/ib_cm.h"
#include "cm/ib/passive_side.h"
#include "cm/ib/repeating.h"
#include "cm/ib/sidr.h"

namespace uroce::cm {

CmActions IbCm::on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now) {
  CmActions actions;
  if (const auto header = parse_header(mad)) {
    dispatch({source, destination, *header, now}, mad.data() + kMadHeaderBytes, actions);
  } else {
    ctx_.counters.malformed.add();
  }
  return actions;
}

void IbCm::dispatch(const Incoming& in, const std::byte* body, CmActions& actions) {
  switch (in.header.attribute) {
    case CmAttribute::req: return on_req(in, ReqMad::load(body), actions);
    case CmAttribute::mra: return on_mra(in, MraMad::load(body));
    case CmAttribute::rej: return on_rej(in, RejMad::load(body), actions);
    case CmAttribute::rep: return on_rep(in, RepMad::load(body), actions);
    case CmAttribute::rtu: return on_rtu(in, RtuMad::load(body), actions);
    case CmAttribute::dreq: return on_dreq(in, DreqMad::load(body), actions);
    case CmAttribute::drep: return on_drep(in, DrepMad::load(body), actions);
    case CmAttribute::sidr_req: return on_sidr_req(in, SidrReqMad::load(body), actions);
    case CmAttribute::sidr_rep: return on_sidr_rep(in, SidrRepMad::load(body), actions);
  }
  // LAP and APR, for alternate paths, are not supported: REPs say so.
  ctx_.counters.malformed.add();
}

CmRecord* IbCm::known(const Incoming& in, uint32_t our_id, uint32_t their_id) {
  CmRecord* const r = table_.find(our_id);
  if (r != nullptr && !r->c.ud() && r->c.remote_id != 0 && r->c.remote_id == their_id &&
      r->c.path().dgid == in.source) {
    return r;
  }
  count_unknown(in);
  return nullptr;
}

void IbCm::count_unknown(const Incoming& in) {
  ctx_.counters.unknown_id.add();
  guesses_.add(in.source, Guess::cm_id, in.now);
}

void IbCm::refuse(const Incoming& in, const RejMad& rej, CmActions& actions) {
  ctx_.counters.rej_sent.add();
  actions.add<OutgoingMad>(in.back(), make_mad(in.header.transaction_id, rej));
}

bool IbCm::refuses_service(const Incoming& in) {
  ctx_.counters.no_listener.add();
  return in.now >= listeners_awaited_until_;
}

void IbCm::on_req(const Incoming& in, const ReqMad& req, CmActions& actions) {
  if (req.local_id == 0 || req.qpn < 2) return ctx_.counters.malformed.add();
  const auto reject_with = [&](RejReason reason) {
    refuse(in, {.remote_id = req.local_id, .reason = static_cast<uint16_t>(reason)}, actions);
  };
  CmRecord* other = table_.find(in.key(PeerKey::Space::comm_id, req.local_id));
  if (other != nullptr && passive_side::is_of(other->c, req)) {
    return apply(*other, passive_side::on_repeated_req(ctx_, other->c, in.header, actions), in.now);
  }
  if (const auto fault = passive_side::fault_of(req, in.source, in.destination)) {
    ctx_.counters.malformed.add();
    return reject_with(*fault);
  }
  ctx_.counters.req_received.add();
  if (other == nullptr) other = table_.find(in.key(PeerKey::Space::qpn, req.qpn));
  if (other != nullptr) {
    // 12.9.8.3.1: here the peer's queue pair is still connected, but the peer seems to have forgotten that connection.
    reject_with(RejReason::stale_connection);
    return apply(*other, closing::on_stale(ctx_, other->c, req.ca_guid, actions), in.now);
  }
  const Listener* const listener = listener_of(req.service_id);
  if (listener == nullptr) {
    if (refuses_service(in)) reject_with(RejReason::invalid_service_id);
    return;
  }
  actions.add<CmArrival>(passive_side::arrival_of(in.header, req, listener->token));
}

void IbCm::on_rep(const Incoming& in, const RepMad& rep, CmActions& actions) {
  CmRecord* const r = table_.find(rep.remote_id);
  if (r == nullptr || !active_side::expects_reps(r->c, in.source)) {
    // 12.9.8.2: reject the REP, so that the peer does not wait for an RTU.
    count_unknown(in);
    return refuse(in,
                  {.local_id = rep.remote_id,
                   .remote_id = rep.local_id,
                   .answered = CmAnswered::rep,
                   .reason = static_cast<uint16_t>(RejReason::invalid_comm_id)},
                  actions);
  }
  CmConnection& c = r->c;
  if (c.state != CmState::req_sent) return apply(*r, active_side::on_later_rep(ctx_, c, rep, actions), in.now);
  const uint32_t qpn = active_side::queue_pair_of(rep, c.request.type);
  if (rep.local_id == 0 || qpn < 2) return ctx_.counters.malformed.add();
  CmRecord* stale = table_.find(in.key(PeerKey::Space::comm_id, rep.local_id));
  if (stale == nullptr) stale = table_.find(in.key(PeerKey::Space::qpn, qpn));
  if (stale == nullptr) return apply(*r, active_side::on_rep(ctx_, c, in.header, rep, actions), in.now);
  apply(*r, active_side::on_stale_rep(ctx_, c, in.header, rep, actions), in.now);
  apply(*stale, closing::on_stale(ctx_, stale->c, rep.ca_guid, actions), in.now);
}

void IbCm::on_rtu(const Incoming& in, const RtuMad& rtu, CmActions& actions) {
  if (CmRecord* const r = known(in, rtu.remote_id, rtu.local_id)) {
    apply(*r, passive_side::on_rtu(ctx_, r->c, rtu, actions), in.now);
  }
}

void IbCm::on_mra(const Incoming& in, const MraMad& mra) {
  CmRecord* const r = table_.find(mra.remote_id);
  const bool to_req = mra.answered == CmAnswered::req;
  if (r == nullptr || r->c.ud() || r->c.path().dgid != in.source || (!to_req && r->c.remote_id != mra.local_id)) {
    return count_unknown(in);
  }
  apply(*r, repeating::on_mra(ctx_, r->c, mra), in.now);
}

/// The REJ has our id, or none if its sender never got ours, and then only the sender's own.
void IbCm::on_rej(const Incoming& in, const RejMad& rej, CmActions& actions) {
  CmRecord* r = table_.find(rej.remote_id);
  const bool named = r != nullptr && !r->c.ud() && r->c.path().dgid == in.source;
  if (named && r->c.remote_id != 0 && r->c.remote_id != rej.local_id) return count_unknown(in);
  if (!named) r = rej.remote_id == 0 ? table_.find(in.key(PeerKey::Space::comm_id, rej.local_id)) : nullptr;
  if (r == nullptr) return count_unknown(in);
  apply(*r, closing::on_rej(ctx_, r->c, rej, actions), in.now);
}

void IbCm::on_dreq(const Incoming& in, const DreqMad& dreq, CmActions& actions) {
  const Mad drep = make_mad(in.header.transaction_id, DrepMad{dreq.remote_id, dreq.local_id, {}});
  if (CmRecord* const r = known(in, dreq.remote_id, dreq.local_id)) {
    return apply(*r, closing::on_dreq(ctx_, r->c, dreq, drep, actions), in.now);
  }
  // An answer all the same, so that the peer stops repeating its DREQ (12.9.8.4).
  ctx_.counters.drep_sent.add();
  actions.add<OutgoingMad>(in.back(), drep);
}

void IbCm::on_drep(const Incoming& in, const DrepMad& drep, CmActions& actions) {
  if (CmRecord* const r = known(in, drep.remote_id, drep.local_id)) {
    apply(*r, closing::on_drep(ctx_, r->c, drep, actions), in.now);
  }
}

void IbCm::on_sidr_req(const Incoming& in, const SidrReqMad& req, CmActions& actions) {
  if (CmRecord* const r = table_.find(in.key(PeerKey::Space::sidr, req.request_id))) {
    return apply(*r, sidr::on_repeated_req(ctx_, r->c, actions), in.now);
  }
  ctx_.counters.sidr_req_received.add();
  if (const Listener* const listener = listener_of(req.service_id)) {
    actions.add<CmArrival>(sidr::arrival_of(in.header, req, in.back(), listener->token));
    return;
  }
  if (!refuses_service(in)) return;
  ctx_.counters.sidr_rep_sent.add();
  actions.add<OutgoingMad>(in.back(), sidr::no_service(in.header, req));
}

void IbCm::on_sidr_rep(const Incoming& in, const SidrRepMad& rep, CmActions& actions) {
  CmRecord* const r = table_.find(rep.request_id);
  if (r == nullptr || !r->c.active || !r->c.ud() || r->c.path().dgid != in.source) return count_unknown(in);
  apply(*r, sidr::on_rep(ctx_, r->c, rep, actions), in.now);
}

}  // namespace uroce::cm
