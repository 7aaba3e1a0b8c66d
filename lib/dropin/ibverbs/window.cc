#include "dropin/ibverbs/window.h"

#include <mutex>

namespace uroce::dropin {

namespace {

constexpr unsigned kRemote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED;
// Access flags of the region: programs pass them, providers ignore them.
constexpr unsigned kOfRegion =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    return refuse_null(EINVAL, "ibv_alloc_mw(): a window's type is IBV_MW_TYPE_1 or IBV_MW_TYPE_2");
  }
  if (check_live(pd, EINVAL) != 0) return nullptr;
  auto made = of(pd)->domain().create_memory_window(static_cast<WindowType>(type));
  if (!made) return report_null(made.error());
  auto* window = new Mw(of(pd), std::move(*made));
  window->ref->shared->has_windows = true;
  return window;
}

int dealloc_mw(ibv_mw* mw) {
  if (const int error = check_live(mw, ENOENT); error != 0) return error;
  delete static_cast<Mw*>(mw);
  return 0;
}

uint32_t bound_rkey(const ibv_mw& mw, uint32_t rkey) { return (mw.rkey & ~0xffu) | (rkey & 0xff); }

int to_bind(const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info, WindowBind& to) {
  if (mw == nullptr || (info.mr == nullptr && info.length != 0)) return EINVAL;
  if ((info.mw_access_flags & ~(kRemote | kOfRegion)) != 0) return EINVAL;
  to.rkey = bound_rkey(*mw, rkey);
  to.lkey = info.mr != nullptr ? info.mr->lkey : 0;
  to.addr = info.addr;
  to.length = info.length;
  to.access = AccessFlags::from_bits(info.mw_access_flags & kRemote);
  return 0;
}

int bind_mw(ibv_qp* ibqp, ibv_mw* mw, ibv_mw_bind* bind) {
  SendRequest request;
  request.wr_id = bind->wr_id;
  request.opcode = WrOpcode::bind_mw;
  request.flags = SendFlags::from_bits(bind->send_flags);
  if ((bind->send_flags & ~unsigned{IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED}) != 0) return EINVAL;
  VerbsQp& qp = *of(ibqp);
  const std::lock_guard guard(qp.send_lock);
  const uint32_t rkey = MemoryWindow::next_rkey(mw->rkey);
  if (const int error = to_bind(mw, rkey, bind->bind_info, request.bind); error != 0) return error;
  if (const int error = qp.api.post_send(request); error != 0) return error;
  mw->rkey = rkey;
  return 0;
}

int check_unbound(const VerbsMr& mr) {
  // Without any window the daemon need not be asked.
  if (!mr.ref->shared->has_windows) return 0;
  const auto bound = mr.api.windows();
  return bound && *bound != 0 ? failed(EBUSY) : 0;
}

}  // namespace uroce::dropin
