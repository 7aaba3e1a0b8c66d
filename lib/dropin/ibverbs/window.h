// Memory windows (ibv_alloc_mw(3), ibv_bind_mw(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

struct Mw : ibv_mw {
  Mw(VerbsPd* domain, MemoryWindow made) : ibv_mw{}, ref(domain->context), api(std::move(made)), of_pd(&domain->users) {
    context = domain->context;
    pd = domain;
    handle = ref->shared->next_handle++;
    rkey = api.rkey();
    type = static_cast<ibv_mw_type>(api.type());
    live.begin(ObjectKind::mw, this, handle, context);
  }
  ContextRef ref;
  MemoryWindow api;
  UseOf of_pd;
  Live live;
};

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
/// Type 1: posts the bind and gives the window its next rkey.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);
/// The rkey of a window that is bound with `rkey`: the caller chooses the low 8 bits, the others stay the window's.
uint32_t bound_rkey(const ibv_mw& mw, uint32_t rkey);
/// Fills in the bind of a work request. 0, or an errno value.
int to_bind(const ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info, WindowBind& to);
/// EBUSY while windows are bound to the region (ibv_dereg_mr(3)).
int check_unbound(const VerbsMr& mr);

}  // namespace uroce::dropin
