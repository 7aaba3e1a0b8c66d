#include "cm/ib/sidr.h"

#include "cm/ib/timeouts.h"
#include "cm/ib/transitions.h"

namespace uroce::cm::sidr {

namespace {

constexpr uint8_t kNoService = 1;
constexpr uint8_t kRejected = 2;

/// Keeps the answer for a while, because the peer repeats its request until it gets one.
CmOutcome send_rep(CmContext& ctx, CmConnection& c, const SidrRepMad& rep, CmActions& actions) {
  c.last = make_mad(c.transaction_id, rep);
  ctx.counters.sidr_rep_sent.add();
  send_last(c, actions);
  return keep_answer(c, cm_time(kSidrLinger));
}

}  // namespace

CmOutcome connect(CmContext& ctx, CmConnection& c, CmActions& actions) {
  c.state = CmState::sidr_sent;
  c.last = make_mad(c.transaction_id, SidrReqMad{c.id, c.request.pkey, c.request.service_id, c.request.private_data});
  ctx.counters.sidr_req_sent.add();
  send_last(c, actions);
  return repeat_until_answered(c, c.request.remote_cm_timeout);
}

CmOutcome on_rep(CmContext& ctx, CmConnection& c, const SidrRepMad& rep, CmActions& actions) {
  if (c.state != CmState::sidr_sent) {
    ctx.counters.duplicates.add();
    return {};
  }
  if (rep.status == 0 && rep.qpn < 2) {
    ctx.counters.malformed.add();
    return {};
  }
  ctx.counters.sidr_rep_received.add();
  c.reply = {.qpn = rep.qpn, .qkey = rep.qkey, .sidr_status = rep.status, .private_data = copy_of(rep.private_data)};
  c.remote_qpn = rep.qpn;
  const CmEventKind kind = rep.status == 0 ? CmEventKind::established : CmEventKind::rejected;
  if (CmMessage* const event = tell(c, kind, actions)) {
    event->reply = c.reply;
    event->reason = rep.status;
    event->info = copy_of(rep.info);
    event->private_data = c.reply.private_data;
  }
  return close(c);
}

Mad no_service(const MadHeader& header, const SidrReqMad& req) {
  const SidrRepMad rep{.request_id = req.request_id, .status = kNoService, .service_id = req.service_id};
  return make_mad(header.transaction_id, rep);
}

CmArrival arrival_of(const MadHeader& header, const SidrReqMad& req, const CmPath& path, uint64_t listener) {
  return {.listener = listener,
          .request = {.service_id = req.service_id,
                      .type = QpType::ud,
                      .path = path,
                      .pkey = req.pkey,
                      .private_data = copy_of(req.private_data)},
          .remote_id = req.request_id,
          .transaction_id = header.transaction_id};
}

CmOutcome on_repeated_req(CmContext& ctx, const CmConnection& c, CmActions& actions) {
  ctx.counters.duplicates.add();
  return c.last ? send_again(ctx, c, actions) : CmOutcome{};
}

CmOutcome answer(CmContext& ctx, CmConnection& c, const CmReply& reply, CmActions& actions) {
  const SidrRepMad rep{.request_id = c.remote_id,
                       .status = reply.sidr_status,
                       .qpn = reply.qpn,
                       .service_id = c.request.service_id,
                       .qkey = reply.qkey,
                       .private_data = reply.private_data};
  return send_rep(ctx, c, rep, actions);
}

CmOutcome reject(CmContext& ctx, CmConnection& c, std::span<const std::byte> info,
                 std::span<const std::byte> private_data, CmActions& actions) {
  const SidrRepMad rep{.request_id = c.remote_id,
                       .status = kRejected,
                       .service_id = c.request.service_id,
                       .info = info,
                       .private_data = private_data};
  return send_rep(ctx, c, rep, actions);
}

}  // namespace uroce::cm::sidr
