// How long a connection rests after its end: the time from DISCONNECTED to TIMEWAIT_EXIT. Written for librdmacm alone,
// so that it runs on Linux's rdma_cm as well.
//
//   linger server ADDRESS PORT       takes one connection
//   linger client ADDRESS PORT       makes one, and ends it as soon as it stands
//
// Both print a line of JSON.
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMilliseconds = 5000;
constexpr unsigned kPatience = 60;  // seconds; SIGALRM ends the program then

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "%s: %s\n", why, std::strerror(errno));
  std::exit(1);
}
void must(int result, const char* call) {
  if (result != 0) die(call);
}

/// Waits for that event. Returns its id.
rdma_cm_id* await(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
  if (event->event != type) {
    std::fprintf(stderr, "%s in place of %s\n", rdma_event_str(event->event), rdma_event_str(type));
    std::exit(1);
  }
  rdma_cm_id* const id = event->id;
  must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
  return id;
}

rdma_conn_param usual() {
  rdma_conn_param param{};
  param.retry_count = param.rnr_retry_count = 7;
  return param;
}

void make_qp(rdma_cm_id* id) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  must(rdma_create_qp(id, nullptr, &attr), "rdma_create_qp");
}

rdma_cm_id* accept_one(rdma_event_channel* channel, rdma_cm_id* listener) {
  must(rdma_listen(listener, 1), "rdma_listen");
  rdma_cm_id* const id = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(id);
  rdma_conn_param param = usual();
  must(rdma_accept(id, &param), "rdma_accept");
  await(channel, RDMA_CM_EVENT_ESTABLISHED);
  return id;
}

void connect(rdma_event_channel* channel, rdma_cm_id* id, sockaddr_in& to) {
  must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), kMilliseconds), "rdma_resolve_addr");
  await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(id, kMilliseconds), "rdma_resolve_route");
  await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(id);
  rdma_conn_param param = usual();
  must(rdma_connect(id, &param), "rdma_connect");
  await(channel, RDMA_CM_EVENT_ESTABLISHED);
  must(rdma_disconnect(id), "rdma_disconnect");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: linger server|client ADDRESS PORT\n");
    return 2;
  }
  alarm(kPatience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(argv[3])));
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) die("no IPv4 address");
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) die("rdma_create_event_channel");
  rdma_cm_id* own = nullptr;
  must(rdma_create_id(channel, &own, nullptr, RDMA_PS_TCP), "rdma_create_id");
  rdma_cm_id* id = own;
  if (std::string_view(argv[1]) == "server") {
    must(rdma_bind_addr(own, reinterpret_cast<sockaddr*>(&address)), "rdma_bind_addr");
    id = accept_one(channel, own);
  } else {
    connect(channel, own, address);
  }
  await(channel, RDMA_CM_EVENT_DISCONNECTED);
  const auto ended = Clock::now();
  if (id != own) must(rdma_disconnect(id), "rdma_disconnect");
  await(channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  std::printf(
      "{\"timewait_ms\": %lld}\n",
      static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - ended).count()));
  rdma_destroy_qp(id);
  must(rdma_destroy_id(id), "rdma_destroy_id");
  if (id != own) must(rdma_destroy_id(own), "rdma_destroy_id");
  rdma_destroy_event_channel(channel);
  return 0;
}
