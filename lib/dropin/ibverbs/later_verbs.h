// Calls of <infiniband/verbs.h> that rdma-core has had since release 59, with their structures. The names are our own,
// so that older and newer headers can be included beside this one. The layouts and the symbols are rdma-core's.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace uroce::dropin::later {

/// Headers older than rdma-core 45's end ibv_qp_ex before wr_flush. Programs that were built with newer ones may call
/// ibv_wr_flush().
template <class Base>
struct WithFlush : Base {
  void (*wr_flush)(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, std::size_t length, uint8_t type, uint8_t level);
};
template <class Base>
  requires requires(Base& base) { base.wr_flush; }
struct WithFlush<Base> : Base {};
using QpEx = WithFlush<ibv_qp_ex>;
constexpr uint64_t kWithFlush = 1u << 11;  ///< IBV_QP_EX_WITH_FLUSH

/// ibv_dmah and ibv_dmah_init_attr: hints for a PCIe device's access to memory.
struct DmaHandle {
  ibv_context* context;
};
struct DmaHandleInit {
  uint32_t fields;
  uint32_t cpu;
  uint8_t hints;
  uint8_t memory_type;
};

/// ibv_buf, which programs do not look into.
struct Buffer;

/// ibv_mr_init_attr. Programs older than `buffer` have no such member, and no bit for it.
struct RegionInit {
  static constexpr uint64_t kIova = 1 << 0;
  static constexpr uint64_t kAddress = 1 << 1;
  static constexpr uint64_t kFd = 1 << 2;
  static constexpr uint64_t kFdOffset = 1 << 3;
  static constexpr uint64_t kDmaHandle = 1 << 4;
  static constexpr uint64_t kBuffer = 1 << 5;

  std::size_t length;
  int access;
  uint64_t fields;
  uint64_t iova;
  void* address;
  int fd;
  uint64_t fd_offset;
  DmaHandle* dma_handle;
  Buffer* buffer;
};

/// ibv_comp_cntr, ibv_comp_cntr_init_attr, ibv_comp_cntr_caps and ibv_qp_attach_comp_cntr_attr.
struct CompletionCounter {
  ibv_context* context;
  uint32_t handle;
};
struct CompletionCounterInit {
  uint32_t fields;
  int type;
  uint32_t flags;
};
struct CompletionCounterCaps {
  uint64_t max_value;
  uint32_t max_counters;
  uint32_t attach_operations;
};
struct CompletionCounterAttach {
  uint32_t fields;
  uint32_t operations;
};

/// Of parent domains; only confidential guests must know of it.
constexpr uint32_t kAllowUnprotectedMemory = 1 << 2;

// Release 59, IBVERBS_1.15.
DmaHandle* alloc_dmah(ibv_context* context, DmaHandleInit* attr) __asm__("ibv_alloc_dmah");
int dealloc_dmah(DmaHandle* handle) __asm__("ibv_dealloc_dmah");
ibv_mr* reg_mr_ex(ibv_pd* pd, RegionInit* attr) __asm__("ibv_reg_mr_ex");

// Release 62, IBVERBS_1.16.
int dm_export_dmabuf_fd(ibv_dm* dm) __asm__("ibv_dm_export_dmabuf_fd");
/// `speed` is in units of 100 Mb/s.
int query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) __asm__("ibv_query_port_speed");

// Release 64, IBVERBS_1.17; the last one release 65, IBVERBS_1.18.
void* alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer) __asm__("ibv_alloc_buf");
void free_buf(Buffer* buffer) __asm__("ibv_free_buf");
ibv_mr* reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, std::size_t length, int access) __asm__("ibv_reg_buf_mr");
int export_buf_dmabuf_fd(Buffer* buffer) __asm__("ibv_export_buf_dmabuf_fd");

// Release 65, IBVERBS_1.18.
int query_comp_cntr_caps(ibv_context* context, CompletionCounterCaps* caps,
                         std::size_t size) __asm__("_ibv_query_comp_cntr_caps");
CompletionCounter* create_comp_cntr(ibv_context* context, CompletionCounterInit* attr) __asm__("ibv_create_comp_cntr");
int destroy_comp_cntr(CompletionCounter* counter) __asm__("ibv_destroy_comp_cntr");
int set_comp_cntr(CompletionCounter* counter, uint64_t value) __asm__("ibv_set_comp_cntr");
int set_err_comp_cntr(CompletionCounter* counter, uint64_t value) __asm__("ibv_set_err_comp_cntr");
int inc_comp_cntr(CompletionCounter* counter, uint64_t amount) __asm__("ibv_inc_comp_cntr");
int inc_err_comp_cntr(CompletionCounter* counter, uint64_t amount) __asm__("ibv_inc_err_comp_cntr");
int read_comp_cntr(CompletionCounter* counter, uint64_t* value) __asm__("ibv_read_comp_cntr");
int read_err_comp_cntr(CompletionCounter* counter, uint64_t* value) __asm__("ibv_read_err_comp_cntr");
int qp_attach_comp_cntr(ibv_qp* qp, CompletionCounter* counter,
                        CompletionCounterAttach* attr) __asm__("ibv_qp_attach_comp_cntr");

}  // namespace uroce::dropin::later
