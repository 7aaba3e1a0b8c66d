// The end of connections: REJ, DREQ and DREP, stale connections, and destroy().
#include <cerrno>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "cm/ib_cm_impl.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kSidrRejected = 2;

CmAnswered rejected_message(CmState state) {
  switch (state) {
    case CmState::req_received: return CmAnswered::req;
    case CmState::req_sent:
    case CmState::rep_received: return CmAnswered::rep;
    default: return CmAnswered::other;
  }
}

}  // namespace

void IbCm::Impl::send_rej(CmRecord& r, RejReason reason, std::span<const std::byte> info,
                          std::span<const std::byte> private_data) {
  r.last = make_mad(r.transaction_id, RejMad{r.id, r.remote_id, rejected_message(r.state),
                                             static_cast<uint16_t>(reason), info, private_data});
  send(r.path(), *r.last, counters.rej_sent);
}

/// REJ with reason timeout. It carries the CA's GUID, so that the peer finds the connection even if it does not know
/// our id (12.6.7.2, code 4).
void IbCm::Impl::send_timeout_rej(CmRecord& r) {
  std::array<std::byte, 8> guid;
  store_be64(guid.data(), config.ca_guid);
  const RejMad rej{r.id, r.remote_id, CmAnswered::other, static_cast<uint16_t>(RejReason::timeout), guid, {}};
  send(r.path(), make_mad(r.transaction_id, rej), counters.rej_sent);
}

/// Sends a REJ for a message that belongs to no connection.
void IbCm::Impl::refuse(const CmPath& path, const MadHeader& header, const RejMad& rej) {
  send(path, make_mad(header.transaction_id, rej), counters.rej_sent);
}

Result<void> IbCm::Impl::reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                                std::span<const std::byte> private_data, Nanos now) {
  const auto found = record_in(id, "reject", {CmState::req_received, CmState::rep_received, CmState::sidr_received});
  if (!found) return std::unexpected(found.error());
  CmRecord& r = **found;
  if (auto fits = check_private(info, kRejInfo, "REJ's additional information"); !fits) return fits;
  if (auto fits = r.ud() ? check_private(private_data, kSidrRepPrivate, "SIDR_REP")
                         : check_private(private_data, kRejPrivate, "REJ");
      !fits) {
    return fits;
  }
  if (r.ud()) {
    answer_sidr(r, {.sidr_status = kSidrRejected, .private_data = copy_of(private_data)}, info, now);
    return {};
  }
  send_rej(r, reason, info, private_data);
  keep_answer(r, cm_time(std::min(r.request.remote_cm_timeout, kMaxPeerTimeout)) + 2 * round_trip(r), now);
  return {};
}

Result<void> IbCm::Impl::disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now) {
  if (auto fits = check_private(private_data, kDreqPrivate, "DREQ"); !fits) return fits;
  const auto found = record_in(id, "disconnect",
                               {CmState::rep_sent, CmState::rep_received, CmState::established, CmState::dreq_sent,
                                CmState::timewait, CmState::closed});
  if (!found) return std::unexpected(found.error());
  const CmState state = (*found)->state;
  const bool over = state == CmState::dreq_sent || state == CmState::timewait || state == CmState::closed;
  if (!over) send_dreq(**found, private_data, now);
  return {};
}

void IbCm::Impl::send_dreq(CmRecord& r, std::span<const std::byte> private_data, Nanos now) {
  r.state = CmState::dreq_sent;
  r.last = make_mad(transaction_ids.next(), DreqMad{r.id, r.remote_id, r.remote_qpn, private_data});
  const uint8_t timeout =
      r.active ? r.request.remote_cm_timeout : std::min(r.request.local_cm_timeout, kMaxPeerTimeout);
  repeat_until_answered(r, timeout, now);
  send(r.path(), *r.last, counters.dreq_sent);
}

/// A message of the peer shows that it has forgotten this connection.
void IbCm::Impl::end_stale(CmRecord& r, Nanos now) {
  counters.stale.add();
  if (r.state == CmState::established) send_dreq(r, {}, now);
}

void IbCm::Impl::destroy(uint32_t id, Nanos now) {
  CmRecord* found = record(id);
  if (found == nullptr || !found->owned) return;
  CmRecord& r = *found;
  switch (r.state) {
    case CmState::req_sent: send_timeout_rej(r); return erase(r);
    case CmState::sidr_sent: return erase(r);
    case CmState::req_received:
    case CmState::rep_received:
    case CmState::sidr_received: static_cast<void>(reject(id, RejReason::consumer_reject, {}, {}, now)); break;
    case CmState::rep_sent:
      // The peer may have received the REP and use the connection already.
      send_rej(r, RejReason::consumer_reject, {}, {});
      enter_timewait(r, now);
      break;
    case CmState::established: send_dreq(r, {}, now); break;
    case CmState::dreq_sent:
    case CmState::timewait:
    case CmState::closed: break;
  }
  r.owned = false;
  if (r.state != CmState::closed) return;
  if (!r.timer.armed()) return erase(r);
  r.spare = spare.insert(spare.end(), &r);
}

/// The connection that a REJ is about. The REJ has our id, or only the sender's own if the sender never got ours.
CmRecord* IbCm::Impl::rejected_by(const Gid& source, const RejMad& rej) {
  CmRecord* r = record(rej.remote_id);
  if (r != nullptr && !r->ud() && r->path().dgid == source) {
    if (r->remote_id == 0 || r->remote_id == rej.local_id) return r;
    return nullptr;
  }
  return rej.remote_id == 0 ? find_peer(PeerKey::Space::comm_id, rej.local_id, source) : nullptr;
}

void IbCm::Impl::on_rej(const Gid& source, const RejMad& rej, Nanos now) {
  CmRecord* r = rejected_by(source, rej);
  if (r == nullptr) return count_unknown(source);
  if (r->state == CmState::timewait || r->state == CmState::closed) return counters.duplicates.add();
  counters.rej_received.add();
  const CmState was = r->state;
  // Time-wait, if packets of the connection may still be in the network, or the queue pair is stale (12.9.8.3.1).
  if (was == CmState::established || was == CmState::dreq_sent || was == CmState::rep_received ||
      rej.reason == static_cast<uint16_t>(RejReason::stale_connection)) {
    enter_timewait(*r, now);
  } else {
    close(*r);
  }
  if (was == CmState::dreq_sent) return raise_event(*r, {.kind = CmEventKind::disconnected});
  raise_event(*r, {.kind = CmEventKind::rejected,
                   .reason = rej.reason,
                   .info = copy_of(rej.info),
                   .private_data = copy_of(rej.private_data)});
}

void IbCm::Impl::on_dreq(const Gid& source, const Gid& destination, const MadHeader& header, const DreqMad& dreq,
                         Nanos now) {
  const CmPath back{.sgid = destination, .dgid = source};
  // Also for a connection that does not exist, so that the peer stops repeating its DREQ (12.9.8.4).
  const Mad drep = make_mad(header.transaction_id, DrepMad{dreq.remote_id, dreq.local_id, {}});
  CmRecord* r = known(dreq.remote_id, dreq.local_id, source);
  if (r == nullptr) return send(back, drep, counters.drep_sent);
  if (dreq.remote_qpn != r->local_qpn) return counters.malformed.add();
  switch (r->state) {
    case CmState::rep_sent:
    case CmState::rep_received:
    case CmState::established:
    case CmState::dreq_sent: break;
    case CmState::timewait:
    case CmState::closed: counters.duplicates.add(); return send(r->path(), drep, counters.drep_sent);
    default: return counters.out_of_state.add();
  }
  counters.dreq_received.add();
  send(r->path(), drep, counters.drep_sent);
  enter_timewait(*r, now);
  raise_event(*r, {.kind = CmEventKind::disconnected, .private_data = copy_of(dreq.private_data)});
}

void IbCm::Impl::on_drep(const Gid& source, const DrepMad& drep, Nanos now) {
  CmRecord* r = known(drep.remote_id, drep.local_id, source);
  if (r == nullptr) return;
  if (r->state == CmState::timewait || r->state == CmState::closed) return counters.duplicates.add();
  if (r->state != CmState::dreq_sent) return counters.out_of_state.add();
  counters.drep_received.add();
  enter_timewait(*r, now);
  raise_event(*r, {.kind = CmEventKind::disconnected, .private_data = copy_of(drep.private_data)});
}

}  // namespace uroce::cm
