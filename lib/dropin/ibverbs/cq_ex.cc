// Extended completion queues: one completion at a time, its members read by call (ibv_create_cq_ex(3)).
#include <endian.h>

#include "dropin/ibverbs/cq.h"

namespace uroce::dropin {

namespace {

constexpr uint64_t kServedWcFlags = uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN |
                                    IBV_WC_EX_WITH_FLOW_TAG;

/// The next completion becomes the current one. ENOENT where there is none.
int advance(VerbsCq& cq) {
  if (!refill(cq)) return failed(ENOENT);
  cq.current = cq.taken[cq.next++];
  ++cq.returned;
  cq.status = static_cast<ibv_wc_status>(cq.current.status);
  cq.wr_id = cq.current.wr_id;
  return 0;
}

int lock_and_advance(VerbsCq& cq) {
  cq.lock.lock();
  const int error = advance(cq);
  if (error != 0) cq.lock.unlock();
  return error;
}

/// The lock is held from here to end_poll(), as ibv_start_poll() has it, unless there is nothing.
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return failed(EINVAL);
  int error = lock_and_advance(*of(cq));
  if (error != 0 && of(cq)->backoff.yielded_after_empty()) error = lock_and_advance(*of(cq));
  if (error == 0) of(cq)->backoff.found();
  return error;
}

int next_poll(ibv_cq_ex* cq) { return advance(*of(cq)); }
void end_poll(ibv_cq_ex* cq) { of(cq)->lock.unlock(); }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(of(cq)->current.opcode); }
uint32_t read_vendor_err(ibv_cq_ex* cq) { return of(cq)->current.vendor_error; }
uint32_t read_byte_len(ibv_cq_ex* cq) { return of(cq)->current.byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) {
  const Completion& current = of(cq)->current;
  return current.flags.has(WcFlag::with_invalidate) ? current.imm_or_key : htobe32(current.imm_or_key);
}
uint32_t read_qp_num(ibv_cq_ex* cq) { return of(cq)->current.qpn; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return of(cq)->current.src_qpn; }
unsigned read_wc_flags(ibv_cq_ex* cq) { return wc_flags(of(cq)->current); }
uint8_t read_sl(ibv_cq_ex* cq) { return wc_sl(of(cq)->current); }
uint64_t read_completion_ts(ibv_cq_ex* cq) { return of(cq)->current.timestamp_ns; }

uint64_t read_completion_wallclock(ibv_cq_ex* cq) {
  SharedContext& shared = *of(cq)->ref->shared;
  return shared.wall_clock.of(of(cq)->current.timestamp_ns, shared.api);
}

uint16_t read_cvlan(ibv_cq_ex* cq) { return of(cq)->current.vlan_tag; }
uint32_t read_flow_tag(ibv_cq_ex* cq) { return of(cq)->current.flow_tag; }

// RoCE has no LIDs, and tag matching is not offered.
template <class T>
T read_zero(ibv_cq_ex* /*cq*/) {
  return 0;
}
void read_tm_info(ibv_cq_ex* /*cq*/, ibv_wc_tm_info* info) { *info = {}; }

}  // namespace

void fill_poll_operations(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_zero<uint32_t>;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_zero<uint8_t>;
  cq.read_completion_ts = read_completion_ts;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
  cq.read_completion_wallclock_ns = read_completion_wallclock;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  constexpr uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attr->wc_flags & ~kServedWcFlags) != 0) {
    return refuse_null(
        EOPNOTSUPP,
        "ibv_create_cq_ex(): completions have no tag-matching information; leave IBV_WC_EX_WITH_TM_INFO out");
  }
  if ((attr->comp_mask & ~kKnownMask) != 0) {
    return refuse_null(EINVAL, "ibv_create_cq_ex(): comp_mask has bits of no known attribute");
  }
  const uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
  constexpr uint32_t kServedFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((flags & ~kServedFlags) != 0) {
    return refuse_null(EOPNOTSUPP, "ibv_create_cq_ex(): flags may be SINGLE_THREADED and IGNORE_OVERRUN alone");
  }
  if (attr->cqe > of(context)->info().max_cqe) {
    return refuse_null(EINVAL, "ibv_create_cq_ex(): cqe is above max_cqe of the device; ask for less");
  }
  CqInit init{static_cast<int>(attr->cqe), attr->cq_context, attr->channel, static_cast<int>(attr->comp_vector)};
  init.locked = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) == 0;
  init.ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    if (check_all_live(EINVAL, attr->parent_domain) != 0) return nullptr;
    if (attr->parent_domain == nullptr || of(attr->parent_domain)->parent == nullptr) {
      return refuse_null(EINVAL, "ibv_create_cq_ex(): parent_domain is none; make it with ibv_alloc_parent_domain()");
    }
    init.parent_domain = of(attr->parent_domain);
    init.locked = init.locked && init.parent_domain->shared_by_threads();
  }
  return make_cq(context, init);
}

}  // namespace uroce::dropin
