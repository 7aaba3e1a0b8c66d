// A verbs program that loses its daemon, or that a signal wakes: client_bereaved MODE [PID of the daemon]. It says
// "ready" where it begins to wait, and ends with 0 when each call did what it does on Linux.
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

struct Device {
  Device() {
    ibv_device** list = ibv_get_device_list(nullptr);
    check(list != nullptr && list[0] != nullptr, "ibv_get_device_list");
    context = ibv_open_device(list[0]);
    check(context != nullptr, "ibv_open_device");
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 64, nullptr, channel, 0);
    check(cq != nullptr && ibv_req_notify_cq(cq, 0) == 0, "ibv_create_cq");
  }
  ibv_context* context;
  ibv_comp_channel* channel;
  ibv_cq* cq;
};

struct Connections {
  Connections() {
    check(channel != nullptr && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  }
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
};

void await_readable(int fd, bool by_epoll) {
  if (by_epoll) {
    const int set = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    check(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    check(epoll_wait(set, &event, 1, 60000) == 1 && (event.events & EPOLLIN) != 0, "epoll_wait");
  } else {
    pollfd waiting{fd, POLLIN, 0};
    check(poll(&waiting, 1, 60000) == 1 && (waiting.revents & POLLIN) != 0, "poll");
  }
}

int next_completion_event(Device& device) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  const int got = ibv_get_cq_event(device.channel, &cq, &context);
  if (got == 0) ibv_ack_cq_events(cq, 1);
  return got;
}

void expect_last_completion_event(Device& device) {
  check(next_completion_event(device) == 0, "an armed queue's event");
  check(next_completion_event(device) == -1 && errno == EIO, "then EIO");
}

void expect_device_fatal(Device& device) {
  ibv_async_event event{};
  check(ibv_get_async_event(device.context, &event) == 0, "ibv_get_async_event");
  check(event.event_type == IBV_EVENT_DEVICE_FATAL, "IBV_EVENT_DEVICE_FATAL");
  ibv_ack_async_event(&event);
  check(ibv_get_async_event(device.context, &event) == -1 && errno == EIO, "then EIO");
}

void expect_device_removal(Connections& connections) {
  rdma_cm_event* event = nullptr;
  check(rdma_get_cm_event(connections.channel, &event) == 0, "rdma_get_cm_event");
  check(event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && event->id == connections.id, "RDMA_CM_EVENT_DEVICE_REMOVAL");
  rdma_ack_cm_event(event);
  check(rdma_get_cm_event(connections.channel, &event) == -1 && errno == EIO, "then EIO");
}

/// How the three kinds of descriptors tell it: `how` is "sleep", "poll" or "epoll".
int completion_channel(const std::string& how) {
  Device device;
  ready();
  if (how != "sleep") await_readable(device.channel->fd, how == "epoll");
  expect_last_completion_event(device);
  return 0;
}

int async_events(const std::string& how) {
  Device device;
  ready();
  if (how != "sleep") await_readable(device.context->async_fd, how == "epoll");
  expect_device_fatal(device);
  return 0;
}

int cm_events(const std::string& how) {
  Connections connections;
  ready();
  if (how != "sleep") await_readable(connections.channel->fd, how == "epoll");
  expect_device_removal(connections);
  pollfd again{connections.channel->fd, POLLIN, 0};
  check(poll(&again, 1, 100) == 0, "an event channel without events stays readable");
  return 0;
}

// --- Work that is posted ----------------------------------------------------------------------------------------

ibv_qp* connected_to_itself(Device& device, ibv_pd* pd, ibv_srq* srq = nullptr) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = device.cq;
  init.qp_type = IBV_QPT_RC;
  init.srq = srq;
  init.cap = {16, 16, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  check(qp != nullptr, "ibv_create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 1;
  check(ibv_query_gid(device.context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.max_rd_atomic = 1;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "RTS");
  return qp;
}

int post(ibv_qp* qp, uint64_t id, bool send) {
  if (send) {
    ibv_send_wr request{};
    ibv_send_wr* bad = nullptr;
    request.wr_id = id;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(qp, &request, &bad);
  }
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  request.wr_id = id;
  return ibv_post_recv(qp, &request, &bad);
}

/// A message that takes seconds to arrive: the daemon is killed when its beginning is there.
int half_a_message(pid_t daemon) {
  Device device;
  ibv_pd* pd = ibv_alloc_pd(device.context);
  constexpr uint32_t kBytes = 1 << 20;
  static std::array<unsigned char, 2 * kBytes> bytes;
  ibv_mr* region = ibv_reg_mr(pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE);
  check(region != nullptr, "ibv_reg_mr");
  ibv_srq_init_attr shared{};
  shared.attr = {16, 1, 0};
  ibv_srq* srq = ibv_create_srq(pd, &shared);
  check(srq != nullptr, "ibv_create_srq");
  ibv_qp* qp = connected_to_itself(device, pd, srq);
  ibv_qp_rate_limit_attr slow{};
  slow.rate_limit = 2000;  // kbit/s
  check(ibv_modify_qp_rate_limit(qp, &slow) == 0, "ibv_modify_qp_rate_limit");

  volatile unsigned char* const arrived = &bytes[kBytes];
  bytes[0] = 1;
  ibv_sge to{reinterpret_cast<uint64_t>(&bytes[kBytes]), kBytes, region->lkey};
  for (uint64_t id = 100; id < 103; ++id) {
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    request.wr_id = id;
    request.sg_list = &to;
    request.num_sge = 1;
    check(ibv_post_srq_recv(srq, &request, &bad) == 0, "ibv_post_srq_recv");
  }
  ibv_sge from{reinterpret_cast<uint64_t>(bytes.data()), kBytes, region->lkey};
  ibv_send_wr request{};
  ibv_send_wr* bad = nullptr;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &from;
  request.num_sge = 1;
  check(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
  for (int i = 0; i < 20000 && *arrived == 0; ++i) usleep(500);
  check(*arrived == 1, "the message's first packet");
  check(kill(daemon, SIGKILL) == 0, "SIGKILL");
  await_readable(device.context->async_fd, false);

  int sends = 0;
  uint64_t next = 100;
  for (int empty = 0; empty < 2000 && next + sends < 104; ++empty) {
    ibv_wc completion{};
    const int got = ibv_poll_cq(device.cq, 1, &completion);
    if (got == 0) usleep(1000);
    if (got != 1) continue;
    check(completion.status == IBV_WC_WR_FLUSH_ERR && completion.qp_num == qp->qp_num, "IBV_WC_WR_FLUSH_ERR");
    if (completion.wr_id == 0) {
      ++sends;
    } else {
      check(completion.wr_id == next++, "the receive of the message, and then the others in order");
    }
  }
  check(next == 103 && sends == 1, "a completion for each request");
  ibv_wc none{};
  check(ibv_poll_cq(device.cq, 1, &none) == 0, "and no more");
  return 0;
}

bool has_stopped(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t name_end = text.rfind(") ");  // proc(5): the state follows the name in brackets
  return name_end != std::string::npos && text.compare(name_end + 2, 1, "T") == 0;
}

/// Returns when every thread has stopped: the signal goes to one of them, which tells the others.
void stop(pid_t daemon) {
  check(kill(daemon, SIGSTOP) == 0, "SIGSTOP");
  const auto threads = std::filesystem::path("/proc") / std::to_string(daemon) / "task";
  for (int tries = 0; tries < 10000; ++tries) {
    if (std::ranges::all_of(std::filesystem::directory_iterator(threads), has_stopped)) return;
    usleep(1000);
  }
  check(false, "the daemon stops");
}

/// The daemon is stopped before it sees the requests, and then killed.
int work(pid_t daemon) {
  Device device;
  ibv_pd* pd = ibv_alloc_pd(device.context);
  ibv_qp* qp = connected_to_itself(device, pd);
  usleep(300000);  // the engine falls asleep as a rule: a post writes to the pipe that wakes it
  stop(daemon);
  constexpr int kEach = 5;
  for (int i = 0; i < kEach; ++i) check(post(qp, 100 + i, false) == 0 && post(qp, i, true) == 0, "post");
  check(kill(daemon, SIGKILL) == 0, "SIGKILL");
  await_readable(device.context->async_fd, false);
  check(post(qp, kEach, true) == 0, "a post that nobody has noticed yet");

  std::array<int, 200> seen{};
  int count = 0;
  for (int empty = 0; empty < 2000 && count < 2 * kEach + 1; ++empty) {
    std::array<ibv_wc, 4> completions{};
    const int got = ibv_poll_cq(device.cq, 4, completions.data());
    for (int i = 0; i < got; ++i) {
      check(completions[i].status == IBV_WC_WR_FLUSH_ERR && completions[i].qp_num == qp->qp_num, "IBV_WC_WR_FLUSH_ERR");
      check(completions[i].wr_id < seen.size() && ++seen[completions[i].wr_id] == 1, "one completion for each request");
      ++count;
    }
    if (got == 0) usleep(1000);
  }
  check(count == 2 * kEach + 1, "a completion for each request");
  check(post(qp, 0, true) == EIO && post(qp, 0, false) == EIO, "posts fail with EIO");
  check(ibv_req_notify_cq(device.cq, 0) == EIO, "ibv_req_notify_cq");
  check(ibv_alloc_pd(device.context) == nullptr && errno == EIO, "ibv_alloc_pd");
  check(ibv_create_cq(device.context, 1, nullptr, nullptr, 0) == nullptr && errno == EIO, "ibv_create_cq");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EIO, "ibv_modify_qp");
  check(ibv_destroy_qp(qp) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_destroy_cq(device.cq) == 0, "destroy");
  check(ibv_destroy_comp_channel(device.channel) == 0 && ibv_close_device(device.context) == 0, "close");
  return 0;
}

// --- Signals ----------------------------------------------------------------------------------------------------

volatile std::sig_atomic_t ticks = 0;
constexpr int kTicks = 4;

void on_tick(int signal);

void handle_ticks(int flags) {
  struct sigaction action{};
  action.sa_handler = on_tick;
  action.sa_flags = flags;
  sigaction(SIGALRM, &action, nullptr);
}

/// The handler restarts system calls until the last tick.
void on_tick(int /*signal*/) {
  ticks = ticks + 1;
  if (ticks == kTicks - 1) handle_ticks(0);
}

template <class Call>
void expect_interrupted(const char* what, Call call) {
  ticks = 0;
  handle_ticks(SA_RESTART);
  const itimerval every{{0, 50000}, {0, 50000}};
  setitimer(ITIMER_REAL, &every, nullptr);
  errno = 0;
  const int result = call();
  const int reason = errno;
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  errno = reason;
  check(result == -1 && reason == EINTR, what);
  check(ticks >= kTicks, "a handler with SA_RESTART ended the call");
}

int signals() {
  Device device;
  Connections connections;
  ibv_async_event async{};
  rdma_cm_event* event = nullptr;
  expect_interrupted("ibv_get_cq_event", [&] { return next_completion_event(device); });
  expect_interrupted("ibv_get_async_event", [&] { return ibv_get_async_event(device.context, &async); });
  expect_interrupted("rdma_get_cm_event", [&] { return rdma_get_cm_event(connections.channel, &event); });
  return 0;
}

/// Closes all that the dead daemon had.
void close_all(const Device& device, const Connections& connections) {
  ibv_destroy_cq(device.cq);
  ibv_destroy_comp_channel(device.channel);
  ibv_close_device(device.context);
  rdma_destroy_id(connections.id);
  rdma_destroy_event_channel(connections.channel);
}

void await_device() {
  for (int i = 0; i < 3000; ++i) {
    ibv_device** list = ibv_get_device_list(nullptr);
    const bool there = list != nullptr && list[0] != nullptr;
    if (list != nullptr) ibv_free_device_list(list);
    if (there) return;
    usleep(10000);
  }
  check(false, "no device within 30 s");
}

/// Goes on with the daemon that takes the dead one's place.
int reopen() {
  {
    Device device;
    Connections connections;
    ready();
    expect_device_fatal(device);
    expect_device_removal(connections);
    close_all(device, connections);
  }
  await_device();
  Device device;
  std::array<std::byte, 4096> bytes{};
  ibv_pd* pd = ibv_alloc_pd(device.context);
  check(pd != nullptr && ibv_reg_mr(pd, bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE) != nullptr, "ibv_reg_mr");
  Connections connections;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  check(rdma_bind_addr(connections.id, reinterpret_cast<sockaddr*>(&any)) == 0, "rdma_bind_addr");
  check(rdma_listen(connections.id, 1) == 0, "rdma_listen");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string how = argc > 2 ? argv[2] : "";
  if (mode == "channel") return completion_channel(how);
  if (mode == "async") return async_events(how);
  if (mode == "cm") return cm_events(how);
  if (mode == "work") return work(std::atoi(how.c_str()));
  if (mode == "half") return half_a_message(std::atoi(how.c_str()));
  if (mode == "signals") return signals();
  if (mode == "reopen") return reopen();
  std::fputs("usage: client_bereaved channel|async|cm sleep|poll|epoll, work|half PID, signals or reopen\n", stderr);
  return 2;
}
