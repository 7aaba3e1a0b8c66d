#include "dropin/ibverbs/qp_ex.h"

#include <cstring>
#include <utility>

#include <endian.h>

#include "base/wr_opcodes.h"
#include "dropin/ibverbs/on_demand.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/served_types.h"
#include "dropin/ibverbs/window.h"

namespace uroce::dropin {

namespace {

SendRequest begin(ibv_qp_ex* qp, WrOpcode opcode) {
  SendRequest request;
  request.wr_id = qp->wr_id;
  request.flags = SendFlags::from_bits(qp->wr_flags).without(SendFlag::inline_data);
  request.opcode = opcode;
  return request;
}

void add_remote(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t address, uint32_t imm = 0) {
  SendRequest request = begin(qp, opcode);
  request.rkey = rkey;
  request.remote_addr = address;
  request.imm_or_key = imm;
  of(qp)->list.add(request);
}

void add_local(ibv_qp_ex* qp, WrOpcode opcode, uint32_t imm_or_key = 0) {
  SendRequest request = begin(qp, opcode);
  request.imm_or_key = imm_or_key;
  of(qp)->list.add(request);
}

void atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
  SendRequest request = begin(qp, WrOpcode::compare_swap);
  request.rkey = rkey;
  request.remote_addr = address;
  request.compare_add = compare;
  request.swap = swap;
  of(qp)->list.add(request);
}
void atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t add) {
  SendRequest request = begin(qp, WrOpcode::fetch_add);
  request.rkey = rkey;
  request.remote_addr = address;
  request.compare_add = add;
  of(qp)->list.add(request);
}
void local_inv(ibv_qp_ex* qp, uint32_t rkey) { add_local(qp, WrOpcode::local_invalidate, rkey); }
void rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) { add_remote(qp, WrOpcode::rdma_read, rkey, address); }
void rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) { add_remote(qp, WrOpcode::rdma_write, rkey, address); }
void rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 imm) {
  add_remote(qp, WrOpcode::rdma_write_with_imm, rkey, address, be32toh(imm));
}
void send(ibv_qp_ex* qp) { add_local(qp, WrOpcode::send); }
void send_imm(ibv_qp_ex* qp, __be32 imm) { add_local(qp, WrOpcode::send_with_imm, be32toh(imm)); }
void send_inv(ibv_qp_ex* qp, uint32_t rkey) { add_local(qp, WrOpcode::send_with_invalidate, rkey); }

void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  SendRequest request = begin(qp, WrOpcode::bind_mw);
  if (const int error = to_bind(mw, rkey, *info, request.bind); error != 0) return of(qp)->list.fail(error);
  of(qp)->list.add(request);
  if (of(qp)->list.error() == 0) of(qp)->binds.push_back({mw, request.bind.rkey});
}
void send_tso(ibv_qp_ex* qp, void* /*header*/, uint16_t /*size*/, uint16_t /*mss*/) { of(qp)->list.fail(EOPNOTSUPP); }
void atomic_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, const void* value) {
  SendRequest request = begin(qp, WrOpcode::atomic_write);
  request.rkey = rkey;
  request.remote_addr = address;
  std::memcpy(&request.swap, value, sizeof(request.swap));
  of(qp)->list.add(request);
}
void flush(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, std::size_t length, uint8_t type, uint8_t level) {
  if (length > kMaxMessage) return of(qp)->list.fail(EINVAL);
  SendRequest request = begin(qp, WrOpcode::flush);
  request.rkey = rkey;
  request.remote_addr = address;
  request.flush = {static_cast<uint32_t>(length), PlacementFlags::from_bits(type), static_cast<FlushScope>(level)};
  of(qp)->list.add(request);
}
void set_xrc_srqn(ibv_qp_ex* qp, uint32_t srqn) {
  SendRequest* request = of(qp)->list.current();
  if (request == nullptr) return of(qp)->list.fail(EINVAL);
  request->remote_srqn = srqn;
}

void set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
  SendRequest* request = of(qp)->list.current();
  if (request == nullptr || ah == nullptr) return of(qp)->list.fail(EINVAL);
  request->ah = of(ah)->handle;
  request->remote_qpn = qpn & kQpnMask;
  request->remote_qkey = qkey;
}
void set_inline_data(ibv_qp_ex* qp, void* bytes, std::size_t length) {
  of(qp)->list.begin_inline();
  of(qp)->list.append_inline(bytes, length);
}
void set_inline_data_list(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* list) {
  of(qp)->list.begin_inline();
  for (std::size_t i = 0; i < count; ++i) of(qp)->list.append_inline(list[i].addr, list[i].length);
}
void set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const Sge sge{address, length, lkey};
  of(qp)->list.set_sges({&sge, 1});
}
void set_sge_list(ibv_qp_ex* qp, std::size_t count, const ibv_sge* list) {
  of(qp)->list.set_sges(as_sges(list, count));
}

/// The lock is held from here to wr_complete() or wr_abort(): one thread builds the list.
void wr_start(ibv_qp_ex* qp) {
  of(qp)->send_lock.lock();
  of(qp)->list.clear();
  of(qp)->binds.clear();
}
int wr_complete(ibv_qp_ex* ibqp) {
  VerbsQp& qp = *of(ibqp);
  int error = qp.list.error();
  if (error == 0 && may_have_implicit(*qp.ref->shared)) error = resolve_implicit(*qp.ref->shared, qp.list.sges());
  if (error == 0) error = qp.api.post_all(qp.list.requests());
  if (error == 0) {
    for (const auto& [mw, rkey] : qp.binds) mw->rkey = rkey;
  }
  qp.send_lock.unlock();
  return error;
}
void wr_abort(ibv_qp_ex* qp) { of(qp)->send_lock.unlock(); }

}  // namespace

uint64_t served_send_operations(uint32_t type) {
  constexpr std::pair<WrOpcode, uint64_t> kOperations[] = {
      {WrOpcode::rdma_write, IBV_QP_EX_WITH_RDMA_WRITE},
      {WrOpcode::rdma_write_with_imm, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
      {WrOpcode::send, IBV_QP_EX_WITH_SEND},
      {WrOpcode::send_with_imm, IBV_QP_EX_WITH_SEND_WITH_IMM},
      {WrOpcode::rdma_read, IBV_QP_EX_WITH_RDMA_READ},
      {WrOpcode::compare_swap, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
      {WrOpcode::fetch_add, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
      {WrOpcode::local_invalidate, IBV_QP_EX_WITH_LOCAL_INV},
      {WrOpcode::bind_mw, IBV_QP_EX_WITH_BIND_MW},
      {WrOpcode::send_with_invalidate, IBV_QP_EX_WITH_SEND_WITH_INV},
      {WrOpcode::atomic_write, IBV_QP_EX_WITH_ATOMIC_WRITE},
      {WrOpcode::flush, later::kWithFlush},
  };
  uint64_t served = 0;
  if (!is_served(type)) return served;
  for (const auto& [opcode, flag] : kOperations) {
    if (offers(static_cast<QpType>(type), opcode)) served |= flag;
  }
  return served;
}

void fill_wr_operations(VerbsQp& qp) {
  qp.wr_atomic_cmp_swp = atomic_cmp_swp;
  qp.wr_atomic_fetch_add = atomic_fetch_add;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_local_inv = local_inv;
  qp.wr_rdma_read = rdma_read;
  qp.wr_rdma_write = rdma_write;
  qp.wr_rdma_write_imm = rdma_write_imm;
  qp.wr_send = send;
  qp.wr_send_imm = send_imm;
  qp.wr_send_inv = send_inv;
  qp.wr_send_tso = send_tso;
  qp.wr_set_ud_addr = set_ud_addr;
  qp.wr_set_xrc_srqn = set_xrc_srqn;
  qp.wr_set_inline_data = set_inline_data;
  qp.wr_set_inline_data_list = set_inline_data_list;
  qp.wr_set_sge = set_sge;
  qp.wr_set_sge_list = set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_atomic_write = atomic_write;
  qp.wr_flush = flush;
}

}  // namespace uroce::dropin
