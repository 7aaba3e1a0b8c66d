// Prints what a device tells a program. Written for libibverbs alone.
//
//   events DEVICE COUNT
//
// Makes a queue pair in INIT, a shared receive queue, and a completion queue that is armed, prints "qp 0xQPN", and then
// COUNT events: "async TYPE OBJECT" with its number (ibv_event_type) and qp, cq, srq (if it is that of the program) or
// port; "completion N" with the number of completions that there are. At the end "qp state N, port state N".
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

struct Objects {
  ibv_context* context = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
};

Objects make(const char* name) {
  Objects made;
  ibv_device** devices = ibv_get_device_list(nullptr);
  for (ibv_device** one = devices; one != nullptr && *one != nullptr; ++one) {
    if (std::strcmp(ibv_get_device_name(*one), name) == 0) made.context = ibv_open_device(*one);
  }
  if (made.context == nullptr) die(name);
  ibv_pd* const pd = ibv_alloc_pd(made.context);
  made.channel = ibv_create_comp_channel(made.context);
  made.cq = ibv_create_cq(made.context, 16, nullptr, made.channel, 0);
  ibv_srq_init_attr srq{nullptr, {16, 1, 0}};
  made.srq = ibv_create_srq(pd, &srq);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = made.cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  made.qp = ibv_create_qp(pd, &init);
  if (made.qp == nullptr || made.srq == nullptr || ibv_req_notify_cq(made.cq, 0) != 0) die("cannot make objects");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  const int all = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv_modify_qp(made.qp, &attr, all) != 0) die("modify");
  return made;
}

const char* object_of(const ibv_async_event& event, const Objects& made) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return event.element.cq == made.cq ? "cq" : "another";
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return event.element.srq == made.srq ? "srq" : "another";
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_GID_CHANGE: return "port";
    default: return event.element.qp == made.qp ? "qp" : "another";
  }
}

void take_async(const Objects& made) {
  ibv_async_event event{};
  if (ibv_get_async_event(made.context, &event) != 0) die("no asynchronous event");
  std::printf("async %d %s\n", event.event_type, object_of(event, made));
  ibv_ack_async_event(&event);
}

void take_completion(const Objects& made) {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(made.channel, &cq, &context) != 0 || cq != made.cq) die("no event of the completion queue");
  ibv_ack_cq_events(cq, 1);
  ibv_wc wc{};
  std::printf("completion %d\n", ibv_poll_cq(cq, 1, &wc));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Objects made = make(argv[1]);
  std::printf("qp %#x\n", made.qp->qp_num);
  std::fflush(stdout);
  for (int left = std::atoi(argv[2]); left > 0; --left) {
    std::array<pollfd, 2> wait{{{made.context->async_fd, POLLIN, 0}, {made.channel->fd, POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), -1) <= 0) die("poll");
    if (wait[0].revents != 0) {
      take_async(made);
    } else {
      take_completion(made);
    }
    std::fflush(stdout);
  }
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_port_attr port{};
  if (ibv_query_qp(made.qp, &attr, IBV_QP_STATE, &init) != 0 || ibv_query_port(made.context, 1, &port) != 0)
    die("query");
  std::printf("qp state %d, port state %d\n", attr.qp_state, port.state);
  return 0;
}
