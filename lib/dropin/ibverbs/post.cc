#include "dropin/ibverbs/post.h"

#include <endian.h>

#include <array>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/on_demand.h"
#include "dropin/ibverbs/window.h"

namespace uroce::dropin {

namespace {

constexpr std::size_t kPostBurst = 8;
constexpr unsigned kServedSendFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// 0, or an errno value where the request is refused. `to` refers to the list of `from`.
int convert(ibv_qp_type type, const ibv_send_wr& from, SendRequest& to) {
  const uint32_t opcode = number_of(from.opcode);
  if (opcode == IBV_WR_TSO || opcode == IBV_WR_ATOMIC_WRITE) return EOPNOTSUPP;
  if (opcode > IBV_WR_SEND_WITH_INV || from.num_sge < 0 || (from.send_flags & ~kServedSendFlags) != 0) return EINVAL;
  to = {};
  to.wr_id = from.wr_id;
  to.opcode = static_cast<WrOpcode>(opcode);
  to.flags = SendFlags::from_bits(from.send_flags);
  to.sges = as_sges(from.sg_list, static_cast<std::size_t>(from.num_sge));
  if (type == IBV_QPT_UD) {
    if (from.wr.ud.ah == nullptr) return EINVAL;
    to.ah = of(from.wr.ud.ah)->handle;
    to.remote_qpn = from.wr.ud.remote_qpn & kQpnMask;
    to.remote_qkey = from.wr.ud.remote_qkey;
  }
  if (type == IBV_QPT_XRC_SEND) to.remote_srqn = from.qp_type.xrc.remote_srqn;
  switch (opcode) {
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE_WITH_IMM: to.imm_or_key = be32toh(from.imm_data); break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV: to.imm_or_key = from.invalidate_rkey; break;
    default: break;
  }
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      to.remote_addr = from.wr.rdma.remote_addr;
      to.rkey = from.wr.rdma.rkey;
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to.remote_addr = from.wr.atomic.remote_addr;
      to.rkey = from.wr.atomic.rkey;
      to.compare_add = from.wr.atomic.compare_add;
      to.swap = from.wr.atomic.swap;
      break;
    case IBV_WR_BIND_MW:
      // Windows of type 1 are bound by ibv_bind_mw().
      if (from.bind_mw.mw == nullptr || from.bind_mw.mw->type != IBV_MW_TYPE_2) return EINVAL;
      return to_bind(from.bind_mw.mw, from.bind_mw.rkey, from.bind_mw.bind_info, to.bind);
    default: break;
  }
  return 0;
}

/// After the post: the window has its new rkey.
void note_posted(const ibv_send_wr& wr) {
  if (wr.opcode == IBV_WR_BIND_MW) wr.bind_mw.mw->rkey = bound_rkey(*wr.bind_mw.mw, wr.bind_mw.rkey);
}

/// Posts up to kPostBurst requests with one doorbell. `wr` moves to the first that was not posted.
int post_burst(VerbsQp& qp, ibv_send_wr*& wr) {
  std::array<SendRequest, kPostBurst> burst;
  std::size_t count = 0;
  int refused = 0;
  for (auto* at = wr; at != nullptr && count < kPostBurst; at = at->next, ++count) {
    refused = convert(qp.qp_base.qp_type, *at, burst[count]);
    if (refused != 0) break;
  }
  int error = 0;
  const std::size_t posted = count == 0 ? 0 : qp.api.post_send(std::span(burst).first(count), &error);
  for (std::size_t i = 0; i < posted; ++i, wr = wr->next) note_posted(*wr);
  return error != 0 ? error : refused;
}

/// Posts one request whose keys may be of implicit regions.
int post_resolved(VerbsQp& qp, const ibv_send_wr& wr) {
  SendRequest request;
  ResolvedSges resolved;
  int error = convert(qp.qp_base.qp_type, wr, request);
  if (error == 0 && (wr.send_flags & IBV_SEND_INLINE) == 0) {
    error = resolved.resolve(*qp.ref->shared, request.sges);
    request.sges = resolved.get();
  }
  if (error != 0) return error;
  const std::lock_guard guard(qp.send_lock);
  error = qp.api.post_send(request);
  if (error == 0) note_posted(wr);
  return error;
}

int post_resolved(VerbsQp& qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    const int error = post_resolved(qp, *wr);
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return 0;
}

}  // namespace

int post_send(ibv_qp* ibqp, ibv_send_wr* wr, ibv_send_wr** bad) {
  VerbsQp& qp = *of(ibqp);
  if (may_have_implicit(*qp.ref->shared)) [[unlikely]]
    return post_resolved(qp, wr, bad);
  const std::lock_guard guard(qp.send_lock);
  int error = 0;
  if (wr != nullptr && wr->next == nullptr) {
    SendRequest request;
    error = convert(ibqp->qp_type, *wr, request);
    if (error == 0) error = qp.api.post_send(request);
    if (error == 0) note_posted(*wr);
  } else {
    while (error == 0 && wr != nullptr) error = post_burst(qp, wr);
  }
  if (error != 0) *bad = wr;
  return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return may_have_implicit(*of(qp)->ref->shared)
             ? post_resolved_receives(of(qp)->api, of(qp)->recv_lock, *of(qp)->ref->shared, wr, bad)
             : post_receives(of(qp)->api, of(qp)->recv_lock, wr, bad);
}

}  // namespace uroce::dropin
