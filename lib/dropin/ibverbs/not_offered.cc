// Calls of later releases of rdma-core that uroce's devices do not serve.
#include "dropin/common/report.h"
#include "dropin/ibverbs/later_verbs.h"

namespace uroce::dropin::later {

namespace {

/// A counter would count work requests that have no completion, and a peer's requests: the engine would have to look
/// for one in each message.
constexpr const char* kNoCounters = "completion counters are not offered; poll a completion queue";

int no_counters() { return refuse(EOPNOTSUPP, kNoCounters); }

}  // namespace

DmaHandle* alloc_dmah(ibv_context* /*context*/, DmaHandleInit* /*attr*/) {
  return refuse_null(EOPNOTSUPP, "ibv_alloc_dmah(): DMA handles are hints to a PCIe device, and there is none");
}

int dealloc_dmah(DmaHandle* /*handle*/) { return failed(EOPNOTSUPP); }

int dm_export_dmabuf_fd(ibv_dm* /*dm*/) {
  return minus_one(refuse(EOPNOTSUPP, "ibv_dm_export_dmabuf_fd(): device memory has no dma-buf behind it"));
}

int query_comp_cntr_caps(ibv_context* /*context*/, CompletionCounterCaps* /*caps*/, std::size_t /*size*/) {
  return no_counters();
}

CompletionCounter* create_comp_cntr(ibv_context* /*context*/, CompletionCounterInit* /*attr*/) {
  return refuse_null(EOPNOTSUPP, kNoCounters);
}

int destroy_comp_cntr(CompletionCounter* /*counter*/) { return no_counters(); }
int set_comp_cntr(CompletionCounter* /*counter*/, uint64_t /*value*/) { return no_counters(); }
int set_err_comp_cntr(CompletionCounter* /*counter*/, uint64_t /*value*/) { return no_counters(); }
int inc_comp_cntr(CompletionCounter* /*counter*/, uint64_t /*amount*/) { return no_counters(); }
int inc_err_comp_cntr(CompletionCounter* /*counter*/, uint64_t /*amount*/) { return no_counters(); }
int read_comp_cntr(CompletionCounter* /*counter*/, uint64_t* /*value*/) { return no_counters(); }
int read_err_comp_cntr(CompletionCounter* /*counter*/, uint64_t* /*value*/) { return no_counters(); }
int qp_attach_comp_cntr(ibv_qp* /*qp*/, CompletionCounter* /*counter*/, CompletionCounterAttach* /*attr*/) {
  return no_counters();
}

}  // namespace uroce::dropin::later
