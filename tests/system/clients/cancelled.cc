// A verbs program whose threads are cancelled in calls: client_cancelled. Each call is made by a thread with a request
// to cancel it that waits already, so that it acts at the first cancellation point. Calls complete, and the thread ends
// after them. Waits for events end with the thread. It ends with 0 when all of it holds and the device is still usable.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

struct Task {
  const std::function<void()>& call;
  bool request_first;
  bool returned = false;
};

void* run(void* argument) {
  Task& task = *static_cast<Task*>(argument);
  if (task.request_first) pthread_cancel(pthread_self());
  task.call();
  task.returned = true;
  pthread_testcancel();
  return nullptr;
}

/// Whether the call returned before the thread ended.
bool returns_when_cancelled(const std::function<void()>& call) {
  Task task{.call = call, .request_first = true};
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, run, &task) == 0, "pthread_create");
  void* result = nullptr;
  check(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED, "the thread was to be cancelled");
  return task.returned;
}

void completes(const char* what, const std::function<bool()>& call) {
  bool good = false;
  errno = 0;
  if (!returns_when_cancelled([&] { good = call(); })) {
    std::fprintf(stderr, "%s: the thread was cancelled within it\n", what);
    std::exit(1);
  }
  check(good, what);
}

/// The wait ends with its thread, whether it has begun or not.
void can_be_cancelled(const char* what, const std::function<void()>& wait) {
  if (returns_when_cancelled(wait)) check(false, what);
  Task task{.call = wait, .request_first = false};
  pthread_t thread{};
  check(pthread_create(&thread, nullptr, run, &task) == 0, "pthread_create");
  usleep(20'000);
  pthread_cancel(thread);
  void* result = nullptr;
  check(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && !task.returned, what);
}

ibv_context* open_device() {
  ibv_device** list = nullptr;
  ibv_context* context = nullptr;
  completes("ibv_get_device_list",
            [&] { return (list = ibv_get_device_list(nullptr)) != nullptr && list[0] != nullptr; });
  completes("ibv_open_device", [&] { return (context = ibv_open_device(list[0])) != nullptr; });
  ibv_free_device_list(list);
  return context;
}

void use_objects(ibv_context* context) {
  static std::array<char, 65536> memory;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_port_attr port{};
  completes("ibv_query_port", [&] { return ibv_query_port(context, 1, &port) == 0; });
  completes("ibv_alloc_pd", [&] { return (pd = ibv_alloc_pd(context)) != nullptr; });
  completes("ibv_reg_mr",
            [&] { return (mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE)) != nullptr; });
  completes("ibv_create_comp_channel", [&] { return (channel = ibv_create_comp_channel(context)) != nullptr; });
  completes("ibv_create_cq", [&] { return (cq = ibv_create_cq(context, 16, nullptr, channel, 0)) != nullptr; });
  completes("ibv_req_notify_cq", [&] { return ibv_req_notify_cq(cq, 0) == 0; });
  completes("ibv_create_qp", [&] {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_UD;
    return (qp = ibv_create_qp(pd, &init)) != nullptr;
  });
  completes("ibv_modify_qp", [&] {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0;
  });
  completes("ibv_query_qp", [&] {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_INIT;
  });
  // An empty poll looks after the daemon now and then.
  completes("ibv_poll_cq", [&] {
    ibv_wc done{};
    for (int i = 0; i < 30; ++i) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
      int before = 0;
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
      nanosleep(&pause, nullptr);
      pthread_setcancelstate(before, nullptr);
      if (ibv_poll_cq(cq, 1, &done) != 0) return false;
    }
    return true;
  });
  can_be_cancelled("ibv_get_cq_event", [&] {
    ibv_cq* from = nullptr;
    void* with = nullptr;
    ibv_get_cq_event(channel, &from, &with);
  });
  can_be_cancelled("ibv_get_async_event", [&] {
    ibv_async_event event{};
    while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  });
  completes("ibv_destroy_qp", [&] { return ibv_destroy_qp(qp) == 0; });
  completes("ibv_destroy_cq", [&] { return ibv_destroy_cq(cq) == 0; });
  completes("ibv_destroy_comp_channel", [&] { return ibv_destroy_comp_channel(channel) == 0; });
  completes("ibv_dereg_mr", [&] { return ibv_dereg_mr(mr) == 0; });
  completes("ibv_dealloc_pd", [&] { return ibv_dealloc_pd(pd) == 0; });
}

void use_connections(const char* address) {
  rdma_event_channel* channel = nullptr;
  rdma_cm_id* id = nullptr;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  inet_pton(AF_INET, address, &to.sin_addr);
  completes("rdma_create_event_channel", [&] { return (channel = rdma_create_event_channel()) != nullptr; });
  completes("rdma_create_id", [&] { return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0; });
  completes("rdma_bind_addr", [&] { return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&to)) == 0; });
  completes("rdma_listen", [&] { return rdma_listen(id, 1) == 0; });
  can_be_cancelled("rdma_get_cm_event", [&] {
    rdma_cm_event* event = nullptr;
    rdma_get_cm_event(channel, &event);
  });
  completes("rdma_destroy_id", [&] { return rdma_destroy_id(id) == 0; });
  completes("rdma_destroy_event_channel", [&] {
    rdma_destroy_event_channel(channel);
    return true;
  });
}

void use_sockets(const char* address) {
  int socket = -1;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  inet_pton(AF_INET, address, &to.sin_addr);
  completes("rsocket", [&] { return (socket = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0; });
  completes("rbind", [&] { return rbind(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0; });
  completes("rlisten", [&] { return rlisten(socket, 1) == 0; });
  can_be_cancelled("raccept", [&] { raccept(socket, nullptr, nullptr); });
  completes("rclose", [&] { return rclose(socket) == 0; });
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 2, "usage: client_cancelled ADDRESS");
  ibv_context* context = open_device();
  for (int i = 0; i < 20; ++i) {
    use_objects(context);
    use_connections(argv[1]);
    use_sockets(argv[1]);
  }
  completes("ibv_close_device", [&] { return ibv_close_device(context) == 0; });
  std::puts("all calls completed");
}
