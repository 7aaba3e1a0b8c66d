// Posts four datagrams to itself, and asks at once for a completion queue of one entry, which must be refused. Prints
// "ready", waits for SIGUSR1, posts, and prints "posted" before it asks.
#include <csignal>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr unsigned kSends = 4;

ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr how{};
  how.send_cq = how.recv_cq = cq;
  how.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  how.qp_type = IBV_QPT_UD;
  how.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd, &how);
  if (qp == nullptr) die("expected a queue pair: %s", std::strerror(errno));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  attr.qp_state = IBV_QPS_RTR;
  failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  attr.qp_state = IBV_QPS_RTS;
  failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (failed != 0) die("the queue pair does not change its state");
  return qp;
}

ibv_ah* to_itself(ibv_pd* pd) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  if (ibv_query_gid(pd->context, 1, 0, &attr.grh.dgid) != 0) die("expected a GID");
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  if (ah == nullptr) die("expected an address handle: %s", std::strerror(errno));
  return ah;
}

}  // namespace

int main() {
  sigset_t start;
  sigemptyset(&start);
  sigaddset(&start, SIGUSR1);
  sigprocmask(SIG_BLOCK, &start, nullptr);
  ibv_pd* pd = open_pd();
  ibv_cq* cq = ibv_create_cq(pd->context, 16, nullptr, nullptr, 0);
  if (cq == nullptr) die("expected a completion queue: %s", std::strerror(errno));
  ibv_qp* qp = make_qp(pd, cq);
  Byte* memory = map_pages(1);
  ibv_sge piece{reinterpret_cast<uintptr_t>(memory), 64, must_register(pd, memory, kPage)->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud = {.ah = to_itself(pd), .remote_qpn = qp->qp_num, .remote_qkey = 0};
  std::puts("ready");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&start, &signal);
  for (unsigned i = 0; i < kSends; ++i) {
    if (ibv_post_send(qp, &request, &bad) != 0) die("a request was not posted");
  }
  std::puts("posted");
  std::fflush(stdout);
  if (const int error = ibv_resize_cq(cq, 1); error != EINVAL) die("expected EINVAL for 1 entry, not %d", error);
  if (const int error = ibv_resize_cq(cq, kSends); error != 0)
    die("expected room for all in %u entries: %d", kSends, error);
}
