// Shows when completions and their event come. Written for libibverbs alone.
//
//   completions DEVICE QPS MESSAGES
//
// Each of QPS queue pairs is connected to itself, and all have one completion queue, which is armed. Each sends
// MESSAGES (at most 16). Prints "N ms: " with the milliseconds since, and what one poll has found: s1.0 is the first
// send of the second queue pair, r1.0 its receive. "N ms: event" is the event. Ends when all have come, and an event.
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kMost = 16;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct Objects {
  ibv_context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<ibv_qp*> qps{};
  std::array<uint8_t, 64> memory{};
};

void connect(ibv_qp* qp, const ibv_gid& gid) {
  ibv_qp_attr attr{};
  const auto modify = [&](ibv_qp_state state, int mask) {
    attr.qp_state = state;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask) != 0) die("cannot connect");
  };
  attr.port_num = 1;
  modify(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.hop_limit = 64;
  modify(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                          IBV_QP_MIN_RNR_TIMER);
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  modify(IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void make(Objects& made, const char* name, int qps) {
  ibv_device** devices = ibv_get_device_list(nullptr);
  for (ibv_device** one = devices; one != nullptr && *one != nullptr; ++one) {
    if (std::strcmp(ibv_get_device_name(*one), name) == 0) made.context = ibv_open_device(*one);
  }
  ibv_gid gid{};
  if (made.context == nullptr || ibv_query_gid(made.context, 1, 0, &gid) != 0) die(name);
  ibv_pd* const pd = ibv_alloc_pd(made.context);
  made.channel = ibv_create_comp_channel(made.context);
  made.cq = ibv_create_cq(made.context, 2 * qps * kMost, nullptr, made.channel, 0);
  made.mr = (ibv_reg_mr)(pd, made.memory.data(), made.memory.size(), IBV_ACCESS_LOCAL_WRITE);
  for (int i = 0; i < qps; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = made.cq;
    init.cap = {kMost, kMost, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    made.qps.push_back(made.mr != nullptr && made.cq != nullptr ? ibv_create_qp(pd, &init) : nullptr);
    if (made.qps.back() == nullptr) die("cannot create a queue pair");
    connect(made.qps.back(), gid);
  }
}

/// All requests of a queue pair in one list.
void post(const Objects& made, std::size_t of, int messages) {
  ibv_sge sge{reinterpret_cast<uint64_t>(made.memory.data()), 32, made.mr->lkey};
  ibv_sge to{sge.addr + 32, 32, sge.lkey};
  std::array<ibv_recv_wr, kMost> receives{};
  std::array<ibv_send_wr, kMost> sends{};
  for (int i = 0; i < messages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool last = i + 1 == messages;
    receives[at] = {of * kMost + at, last ? nullptr : &receives[at + 1], &to, 1};
    sends[at].wr_id = of * kMost + at;
    sends[at].next = last ? nullptr : &sends[at + 1];
    sends[at].sg_list = &sge;
    sends[at].num_sge = 1;
    sends[at].opcode = IBV_WR_SEND;
  }
  ibv_recv_wr* bad_recv = nullptr;
  ibv_send_wr* bad_send = nullptr;
  if (ibv_post_recv(made.qps[of], receives.data(), &bad_recv) != 0) die("cannot post a receive");
  if (ibv_post_send(made.qps[of], sends.data(), &bad_send) != 0) die("cannot post a send");
}

class Watch {
 public:
  explicit Watch(const Objects& made) : made_(made) {}

  int take_completions() {
    std::vector<ibv_wc> found(2 * made_.qps.size() * kMost);
    const int count = ibv_poll_cq(made_.cq, static_cast<int>(found.size()), found.data());
    if (count <= 0) return 0;
    std::printf("%lld ms:", elapsed());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = found[static_cast<std::size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS) die(ibv_wc_status_str(wc.status));
      std::printf(" %c%d.%d", wc.opcode == IBV_WC_RECV ? 'r' : 's', static_cast<int>(wc.wr_id / kMost),
                  static_cast<int>(wc.wr_id % kMost));
    }
    std::printf("\n");
    return count;
  }
  bool take_event() {
    pollfd wait{made_.channel->fd, POLLIN, 0};
    if (poll(&wait, 1, 0) != 1) return false;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(made_.channel, &cq, &context) != 0) die("no event");
    ibv_ack_cq_events(cq, 1);
    std::printf("%lld ms: event\n", elapsed());
    return true;
  }

 private:
  long long elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count();
  }
  const Objects& made_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Objects made;
  const int qps = std::atoi(argv[2]), messages = std::atoi(argv[3]);
  make(made, argv[1], qps);
  if (ibv_req_notify_cq(made.cq, 0) != 0) die("cannot arm");
  Watch watch(made);
  for (std::size_t i = 0; i < made.qps.size(); ++i) post(made, i, messages);
  bool has_event = false;
  for (int left = 2 * qps * messages; left > 0 || !has_event;) {
    left -= watch.take_completions();
    has_event |= watch.take_event();
  }
  for (ibv_qp* qp : made.qps) ibv_destroy_qp(qp);
  return 0;
}
