// Calls that libibverbs has had since rdma-core 59, linked with their versions as a program of that time links them.
//
// Prints a line for each kind of call: its name and "works", or the error.
#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dropin/ibverbs/later_verbs.h"

namespace {

namespace later = uroce::dropin::later;

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint64_t kIova = 0x7000'0000'0000;

template <class T>
T must(T made, const char* what) {
  if (made) return made;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void tell(const char* call, int error) { std::printf("%s: %s\n", call, error == 0 ? "works" : std::strerror(error)); }

/// A queue pair of RC that is connected with itself.
struct Loop {
  explicit Loop(ibv_pd* pd) {
    cq = must(ibv_create_cq(pd->context, 4, nullptr, nullptr, 0), "ibv_create_cq");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {2, 2, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = must(ibv_create_qp(pd, &init), "ibv_create_qp");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAll;
    modify(attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.min_rnr_timer = 12;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.is_global = attr.ah_attr.port_num = 1;
    must(ibv_query_gid(pd->context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
    modify(attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                     IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    modify(attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  ~Loop() {
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void modify(ibv_qp_attr& attr, int mask) const {
    must((errno = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE)) == 0, "ibv_modify_qp");
  }
  /// 0 once the bytes are there.
  int write(ibv_sge from, uint64_t to, uint32_t rkey) const {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {to, rkey};
    if (const int error = ibv_post_send(qp, &wr, &bad); error != 0) return error;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    ibv_wc done{};
    while (ibv_poll_cq(cq, 1, &done) == 0) {
      if (std::chrono::steady_clock::now() > limit) return ETIMEDOUT;
    }
    return done.status == IBV_WC_SUCCESS ? 0 : EIO;
  }

  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

/// A buffer of the library's, and the same bytes once more under addresses of their own.
int buffers(ibv_pd* pd) {
  later::Buffer* buffer = nullptr;
  auto* memory = static_cast<char*>(must(later::alloc_buf(pd, 10000, &buffer), "ibv_alloc_buf"));
  ibv_mr* source = must(later::reg_buf_mr(pd, buffer, memory, 5000, kAll), "ibv_reg_buf_mr");
  later::RegionInit attr{};
  attr.fields = later::RegionInit::kAddress | later::RegionInit::kIova | later::RegionInit::kBuffer;
  attr.address = memory + 5000;
  attr.length = 5000;
  attr.iova = kIova;
  attr.access = kAll;
  attr.buffer = buffer;
  ibv_mr* target = must(later::reg_mr_ex(pd, &attr), "ibv_reg_mr_ex");
  std::memset(memory, 'x', 5000);
  const Loop loop(pd);
  int error = loop.write({reinterpret_cast<uint64_t>(memory), 5000, source->lkey}, kIova, target->rkey);
  if (error == 0 && std::memcmp(memory, memory + 5000, 5000) != 0) error = EIO;
  must((errno = ibv_dereg_mr(source)) == 0 && (errno = ibv_dereg_mr(target)) == 0, "ibv_dereg_mr");
  later::free_buf(buffer);
  return error;
}

int exported_buffer(ibv_pd* pd) {
  later::Buffer* buffer = nullptr;
  must(later::alloc_buf(pd, 1, &buffer), "ibv_alloc_buf");
  const int error = later::export_buf_dmabuf_fd(buffer) < 0 ? errno : 0;
  later::free_buf(buffer);
  return error;
}

int exported_device_memory(ibv_context* context) {
  ibv_alloc_dm_attr attr{};
  attr.length = 4096;
  ibv_dm* dm = must(ibv_alloc_dm(context, &attr), "ibv_alloc_dm");
  const int error = later::dm_export_dmabuf_fd(dm) < 0 ? errno : 0;
  ibv_free_dm(dm);
  return error;
}

}  // namespace

int main() {
  ibv_device** devices = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = must(devices[0] != nullptr ? ibv_open_device(devices[0]) : nullptr, "ibv_open_device");
  ibv_pd* pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
  uint64_t speed = 0;
  tell("ibv_query_port_speed", later::query_port_speed(context, 1, &speed));
  std::printf("speed %" PRIu64 "\n", speed);
  tell("ibv_reg_buf_mr", buffers(pd));
  tell("ibv_export_buf_dmabuf_fd", exported_buffer(pd));
  tell("ibv_dm_export_dmabuf_fd", exported_device_memory(context));
  later::DmaHandleInit hints{};
  tell("ibv_alloc_dmah", later::alloc_dmah(context, &hints) == nullptr ? errno : 0);
  later::CompletionCounterCaps caps{};
  tell("ibv_query_comp_cntr_caps", later::query_comp_cntr_caps(context, &caps, sizeof(caps)));
  later::CompletionCounterInit counter{};
  tell("ibv_create_comp_cntr", later::create_comp_cntr(context, &counter) == nullptr ? errno : 0);
  must((errno = ibv_dealloc_pd(pd)) == 0, "ibv_dealloc_pd");
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return 0;
}
