// Misuses verbs once, in the way that the first argument names; `nothing` does all of it right. With
// events-unacknowledged the second argument is a file: the events are acknowledged once it exists.
//
// Usage: misuse WORD [FILE]
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kQkey = 0x1234;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

template <class T>
T* must(T* made, const char* what) {
  if (made == nullptr) die(what);
  return made;
}

ibv_context* open_first() {
  ibv_device** list = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = must(ibv_open_device(must(list[0], "no device")), "ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

alignas(4096) char memory[16384];
ibv_context* const context = open_first();
ibv_pd* const pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");
ibv_comp_channel* const channel = must(ibv_create_comp_channel(context), "ibv_create_comp_channel");
ibv_cq* const cq = must(ibv_create_cq(context, 64, nullptr, channel, 0), "ibv_create_cq");
ibv_mr* const mr = must(ibv_reg_mr(pd, memory, sizeof(memory), kAll), "ibv_reg_mr");

struct Kind {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_pd* domain = pd;
  ibv_cq* completions = cq;
  ibv_srq* srq = nullptr;
};

ibv_qp* make_qp(const Kind& kind = {}) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = kind.completions;
  attr.srq = kind.srq;
  attr.cap = {8, 8, 2, 2, 64};
  attr.qp_type = kind.type;
  return must(ibv_create_qp(kind.domain, &attr), "ibv_create_qp");
}

ibv_qp_ex* make_extended(uint64_t operations, ibv_pd* domain = pd) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {8, 8, 2, 2, 64};
  attr.qp_type = IBV_QPT_RC;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = domain;
  attr.send_ops_flags = operations;
  return ibv_qp_to_qp_ex(must(ibv_create_qp_ex(context, &attr), "ibv_create_qp_ex"));
}

void modify(ibv_qp* qp, ibv_qp_attr attr, int mask) {
  if (ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE) != 0) die("ibv_modify_qp");
}

ibv_ah_attr address() {
  ibv_ah_attr to{};
  if (ibv_query_gid(context, 1, 0, &to.grh.dgid) != 0) die("ibv_query_gid");
  to.is_global = 1;
  to.port_num = 1;
  to.grh.hop_limit = 64;
  return to;
}

void to_init(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.qp_access_flags = kAll;
  const int own = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  modify(qp, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

void connect(ibv_qp* qp, ibv_qp* peer, uint8_t reads = 4) {
  to_init(qp);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp_num;
  attr.ah_attr = address();
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  modify(
      qp, attr,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = reads;
  modify(qp, attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/// A queue pair, and the one that it is connected to.
struct Pair {
  explicit Pair(ibv_qp* made = make_qp(), uint8_t reads = 4) : qp(made) {
    connect(qp, peer, reads);
    connect(peer, qp);
  }
  ibv_qp* qp;
  ibv_qp* peer = make_qp();
};

ibv_qp* make_ud() {
  ibv_qp* qp = make_qp({.type = IBV_QPT_UD});
  to_init(qp);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  modify(qp, attr, 0);
  attr.qp_state = IBV_QPS_RTS;
  modify(qp, attr, IBV_QP_SQ_PSN);
  return qp;
}

ibv_sge piece(int offset = 0, uint32_t length = 64, ibv_mr* region = mr) {
  return {reinterpret_cast<uint64_t>(region->addr) + static_cast<uint64_t>(offset), length, region->lkey};
}

struct Send {
  explicit Send(ibv_sge one, ibv_wr_opcode opcode = IBV_WR_SEND) : sges{one, one} {
    wr.sg_list = sges;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_SEND) return;
    const uint64_t there = reinterpret_cast<uint64_t>(memory) + 8192;
    if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
      wr.wr.atomic = {there, 0, 0, mr->rkey};
    } else {
      wr.wr.rdma = {there, mr->rkey};
    }
  }
  int post(ibv_qp* qp) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  ibv_sge sges[2];
  ibv_send_wr wr{};
};

int receive(ibv_qp* qp, ibv_sge sge) {
  ibv_recv_wr wr{.wr_id = 1, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

void poll(ibv_cq* queue, int completions) {
  while (completions > 0) {
    ibv_wc wc;
    const int got = ibv_poll_cq(queue, 1, &wc);
    if (got < 0 || (got == 1 && wc.status != IBV_WC_SUCCESS)) die("ibv_poll_cq");
    completions -= got;
  }
}

ibv_srq* make_srq() {
  ibv_srq_init_attr init{};
  init.attr = {8, 1, 0};
  return must(ibv_create_srq(pd, &init), "ibv_create_srq");
}

void datagram(ibv_qp* qp, ibv_ah* ah, uint32_t length = 64, ibv_wr_opcode opcode = IBV_WR_SEND) {
  Send send(piece(0, length), opcode);
  send.wr.wr.ud = {ah, qp->qp_num, kQkey};
  send.post(qp);
}

ibv_ah* make_ah(ibv_pd* domain = pd) {
  ibv_ah_attr to = address();
  return must(ibv_create_ah(domain, &to), "ibv_create_ah");
}

ibv_pd* make_domain_for_one_thread() {
  ibv_td_init_attr td{};
  ibv_parent_domain_init_attr init{};
  init.pd = pd;
  init.td = must(ibv_alloc_td(context, &td), "ibv_alloc_td");
  return must(ibv_alloc_parent_domain(context, &init), "ibv_alloc_parent_domain");
}

ibv_cq_ex* make_extended_cq() {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
  return must(ibv_create_cq_ex(context, &attr), "ibv_create_cq_ex");
}

/// A completion event that was got.
void get_event() {
  Pair pair;
  ibv_req_notify_cq(cq, 0);
  Send(piece(), IBV_WR_RDMA_WRITE).post(pair.qp);
  ibv_cq* of_queue = nullptr;
  void* unused = nullptr;
  if (ibv_get_cq_event(channel, &of_queue, &unused) != 0) die("ibv_get_cq_event");
  poll(cq, 1);
  ibv_destroy_qp(pair.qp);
  ibv_destroy_qp(pair.peer);
}

/// Much of verbs, each call as it is meant.
void nothing() {
  Pair pair;
  receive(pair.peer, piece(4096));
  Send(piece()).post(pair.qp);
  poll(cq, 2);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Send(piece(1024), opcode).post(pair.qp);
    poll(cq, 1);
  }
  Send(piece(0, 8), IBV_WR_ATOMIC_FETCH_AND_ADD).post(pair.qp);
  poll(cq, 1);
  Send inline_send(piece());
  inline_send.wr.send_flags |= IBV_SEND_INLINE;
  inline_send.sges[0].lkey = 0;
  inline_send.post(pair.qp);
  memory[0] = 1;
  receive(pair.peer, piece(4096));
  poll(cq, 2);
  get_event();
  ibv_ack_cq_events(cq, 1);
  ibv_destroy_qp(pair.qp);
  ibv_destroy_qp(pair.peer);
  ibv_qp_ex* extended = make_extended(IBV_QP_EX_WITH_RDMA_WRITE);
  Pair second(&extended->qp_base);
  ibv_wr_start(extended);
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(extended, mr->rkey, reinterpret_cast<uint64_t>(memory) + 8192);
  ibv_wr_set_sge(extended, mr->lkey, reinterpret_cast<uint64_t>(memory), 64);
  if (ibv_wr_complete(extended) != 0) die("ibv_wr_complete");
  poll(cq, 1);
  ibv_destroy_qp(second.qp);
  ibv_destroy_qp(second.peer);
  ibv_qp* ud = make_ud();
  ibv_ah* ah = make_ah();
  datagram(ud, ah);
  poll(cq, 1);
  ibv_destroy_ah(ah);
  ibv_destroy_qp(ud);
  ibv_destroy_cq(cq);
  ibv_destroy_comp_channel(channel);
  ibv_dereg_mr(mr);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
}

void change_buffer() {
  Pair pair;
  Send(piece()).post(pair.qp);  // the peer has no receive, so it stays in flight
  memory[3] = 7;
  receive(pair.peer, piece(4096));
  poll(cq, 2);
}

void unmap() {
  Pair pair;
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ibv_mr* region = must(ibv_reg_mr(pd, mapped, 4096, kAll), "ibv_reg_mr");
  munmap(mapped, 4096);
  Send(piece(0, 64, region)).post(pair.qp);
}

void never_signal() {
  Pair pair;
  ibv_qp_attr attr{};
  ibv_qp_init_attr made{};
  ibv_query_qp(pair.qp, &attr, IBV_QP_CAP, &made);
  for (uint32_t i = 0; i < made.cap.max_send_wr; ++i) {
    Send send(piece(), IBV_WR_RDMA_WRITE);
    send.wr.send_flags = 0;
    send.post(pair.qp);
  }
}

void transition(ibv_qp_state to, int mask) {
  ibv_qp_attr attr{};
  attr.qp_state = to;
  attr.port_num = 1;
  ibv_modify_qp(make_qp(), &attr, mask | IBV_QP_STATE);
}

void loop() {
  Pair pair;
  Send first(piece(), IBV_WR_RDMA_WRITE), second(piece(), IBV_WR_RDMA_WRITE);
  first.wr.next = &second.wr;
  second.wr.next = &first.wr;
  first.post(pair.qp);
}

void two_threads() {
  ibv_qp_ex* qp = make_extended(IBV_QP_EX_WITH_RDMA_WRITE, make_domain_for_one_thread());
  Pair pair(&qp->qp_base);
  ibv_wr_start(qp);
  std::thread([&] { Send(piece(), IBV_WR_RDMA_WRITE).post(pair.qp); }).join();
  ibv_wr_abort(qp);
}

void fork_and_poll() {
  const pid_t child = fork();
  if (child == 0) {
    ibv_wc wc;
    ibv_poll_cq(cq, 1, &wc);
    std::exit(0);
  }
  waitpid(child, nullptr, 0);
}

void use_destroyed() {
  Pair pair;
  ibv_destroy_qp(pair.qp);
  Send(piece(), IBV_WR_RDMA_WRITE).post(pair.qp);
  ibv_destroy_qp(pair.qp);
  ibv_cq* other = must(ibv_create_cq(context, 4, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_destroy_cq(other);
  ibv_wc wc;
  ibv_poll_cq(other, 1, &wc);
}

void leave_unacknowledged(const char* file) {
  get_event();
  std::thread late([file] {
    while (access(file, F_OK) != 0) usleep(10000);
    ibv_ack_cq_events(cq, 1);
  });
  ibv_destroy_cq(cq);
  late.join();
}

using Misuses = std::map<std::string, std::function<void()>>;

Misuses about_memory() {
  return {
      {"unregistered", [] { Send({reinterpret_cast<uint64_t>(memory), 64, 0x7654321}).post(Pair().qp); }},
      {"deregistered",
       [] {
         ibv_mr* region = must(ibv_reg_mr(pd, memory, 4096, kAll), "ibv_reg_mr");
         const ibv_sge sge = piece(0, 64, region);
         ibv_dereg_mr(region);
         Send(sge).post(Pair().qp);
       }},
      {"outside-region", [] { Send(piece(sizeof(memory) - 10)).post(Pair().qp); }},
      {"foreign-region",
       [] {
         ibv_pd* other = must(ibv_alloc_pd(context), "ibv_alloc_pd");
         Send(piece(0, 64, must(ibv_reg_mr(other, memory, 4096, kAll), "ibv_reg_mr"))).post(Pair().qp);
       }},
      {"no-local-write", [] { receive(Pair().qp, piece(0, 64, must(ibv_reg_mr(pd, memory, 4096, 0), "ibv_reg_mr"))); }},
      {"region-in-use",
       [] {
         ibv_mr* region = must(ibv_reg_mr(pd, memory, 4096, kAll), "ibv_reg_mr");
         receive(Pair().qp, piece(0, 64, region));
         ibv_dereg_mr(region);
       }},
      {"buffer-overlap",
       [] {
         Pair pair;
         receive(pair.qp, piece(0));
         receive(pair.peer, piece(32));
       }},
      {"buffer-repeated",
       [] {
         Pair pair;
         receive(pair.qp, piece());
         receive(pair.qp, piece());
       }},
      {"buffer-changed", change_buffer},
      {"memory-gone", unmap},
  };
}

Misuses about_requests() {
  return {
      {"cq-overrun",
       [] {
         Pair pair(make_qp({.completions = must(ibv_create_cq(context, 1, nullptr, nullptr, 0), "ibv_create_cq")}));
         receive(pair.qp, piece(0));
         receive(pair.qp, piece(64));
       }},
      {"never-signalled", never_signal},
      {"send-state", [] { Send(piece()).post(make_qp()); }},
      {"receive-state", [] { receive(make_qp(), piece()); }},
      {"bad-transition", [] { transition(IBV_QPS_RTS, 0); }},
      {"missing-attribute", [] { transition(IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX); }},
      {"extra-attribute",
       [] { transition(IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_SQ_PSN); }},
      {"inline-too-long",
       [] {
         Pair pair;
         ibv_qp_attr attr{};
         ibv_qp_init_attr made{};
         ibv_query_qp(pair.qp, &attr, IBV_QP_CAP, &made);
         Send send(piece(0, made.cap.max_inline_data + 1));
         send.wr.send_flags |= IBV_SEND_INLINE;
         send.post(pair.qp);
       }},
      {"too-many-sges",
       [] {
         Pair pair;
         ibv_qp_attr attr{};
         ibv_qp_init_attr made{};
         ibv_query_qp(pair.qp, &attr, IBV_QP_CAP, &made);
         std::vector<ibv_sge> many(made.cap.max_send_sge + 1, piece());
         Send send(piece());
         send.wr.sg_list = many.data();
         send.wr.num_sge = static_cast<int>(many.size());
         send.post(pair.qp);
       }},
      {"wrong-opcode", [] { datagram(make_ud(), make_ah(), 64, IBV_WR_RDMA_WRITE); }},
      {"undeclared-operation",
       [] {
         ibv_qp_ex* qp = make_extended(IBV_QP_EX_WITH_SEND);
         Pair pair(&qp->qp_base);
         ibv_wr_start(qp);
         ibv_wr_rdma_write(qp, mr->rkey, reinterpret_cast<uint64_t>(memory));
         ibv_wr_complete(qp);
       }},
      {"atomic-unaligned",
       [] {
         Send send(piece(0, 8), IBV_WR_ATOMIC_FETCH_AND_ADD);
         send.wr.wr.atomic.remote_addr += 4;
         send.post(Pair().qp);
       }},
      {"atomic-length", [] { Send(piece(0, 4), IBV_WR_ATOMIC_FETCH_AND_ADD).post(Pair().qp); }},
      {"no-reads", [] { Send(piece(), IBV_WR_RDMA_READ).post(Pair(make_qp(), 0).qp); }},
      {"datagram-too-long", [] { datagram(make_ud(), make_ah(), 5000); }},
      {"receive-with-srq", [] { receive(Pair(make_qp({.srq = make_srq()})).qp, piece()); }},
      {"foreign-ah", [] { datagram(make_ud(), make_ah(must(ibv_alloc_pd(context), "ibv_alloc_pd"))); }},
      {"list-loop", loop},
  };
}

Misuses about_objects(const char* file) {
  return {
      {"ah-in-flight",
       [] {
         ibv_ah* ah = make_ah();
         datagram(make_ud(), ah);
         ibv_destroy_ah(ah);
       }},
      {"wr-order",
       [] {
         ibv_qp_ex* qp = make_extended(IBV_QP_EX_WITH_SEND);
         Pair pair(&qp->qp_base);
         ibv_wr_send(qp);
       }},
      {"poll-order", [] { ibv_next_poll(make_extended_cq()); }},
      {"two-threads", two_threads},
      {"forked-child", fork_and_poll},
      {"destroyed-object", use_destroyed},
      {"object-in-use", [] { ibv_dealloc_pd(pd); }},
      {"events-unacknowledged", [file] { leave_unacknowledged(file); }},
      {"events-overacknowledged", [] { ibv_ack_cq_events(cq, 1); }},
      {"nothing", nothing},
  };
}

}  // namespace

int main(int argc, char** argv) {
  Misuses all = about_memory();
  all.merge(about_requests());
  all.merge(about_objects(argc > 2 ? argv[2] : ""));
  const auto chosen = argc > 1 ? all.find(argv[1]) : all.end();
  if (chosen == all.end()) die("usage: misuse WORD [FILE]");
  chosen->second();
  std::puts("done");
}
