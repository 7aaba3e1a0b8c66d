// Calls that librdmacm has had since rdma-core 60, linked with their versions as a program of that time links them.
//
//   later_cm events ADDRESS     events of its own wake a thread; a name is resolved and then its address
//   later_cm sockets ADDRESS    rsockets echo bytes to each other, as repoll_wait() tells them
//
// Prints a line for each step that works, and ends with 1 at the first that does not.
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "dropin/rdmacm/later_cm.h"
#include "dropin/rsocket/repoll.h"

namespace {

namespace later = uroce::dropin::rdmacm::later;

constexpr int kClients = 8, kRounds = 50;
constexpr int kPatience = 30000;

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// Takes an event of that type; returns its argument.
uint64_t take(rdma_event_channel* channel, uint32_t type) {
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  must(static_cast<uint32_t>(event->event) == type && event->status == 0, rdma_event_str(event->event));
  uint64_t argument = 0;
  std::memcpy(&argument, &event->param, sizeof(argument));
  rdma_ack_cm_event(event);
  return argument;
}

void events(const char* address) {
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  must(channel != nullptr && rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  uint64_t heard = 0;
  std::thread waits([&] { heard = take(channel, later::kUserEvent); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that it most probably sleeps
  must(later::write_cm_event(id, later::kUserEvent, 0, 4711) == 0, "rdma_write_cm_event");
  waits.join();
  std::printf("rdma_write_cm_event: %d\n", static_cast<int>(heard));

  rdma_addrinfo* info = nullptr;
  must(later::resolve_addrinfo(id, address, "7471", nullptr) == 0, "rdma_resolve_addrinfo");
  take(channel, later::kAddrinfoResolved);
  must(later::query_addrinfo(id, &info) == 0, "rdma_query_addrinfo");
  must(rdma_resolve_addr(id, nullptr, info->ai_dst_addr, kPatience) == 0, "rdma_resolve_addr");
  take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  std::printf("rdma_resolve_addrinfo: port %d\n", ntohs(rdma_get_dst_port(id)));
  rdma_freeaddrinfo(info);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

void watch(int list, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  must(repoll_ctl(list, EPOLL_CTL_ADD, fd, &event) == 0, "repoll_ctl");
}

/// Sends back what comes, until all clients have closed.
void serve(int listener) {
  const int list = repoll_create(0);
  must(list >= 0, "repoll_create");
  watch(list, listener);
  for (int closed = 0; closed < kClients;) {
    std::array<epoll_event, 4> ready{};
    const int count = repoll_wait(list, ready.data(), ready.size(), kPatience);
    must(count > 0, "repoll_wait");
    for (int i = 0; i < count; ++i) {
      if (ready[i].data.fd == listener) {
        watch(list, raccept(listener, nullptr, nullptr));
        continue;
      }
      char buffer[64];
      const ssize_t got = rrecv(ready[i].data.fd, buffer, sizeof(buffer), 0);
      if (got > 0) {
        must(rsend(ready[i].data.fd, buffer, static_cast<std::size_t>(got), 0) == got, "rsend");
      } else {
        rclose(ready[i].data.fd);
        ++closed;
      }
    }
  }
  rclose(list);
}

void talk(const sockaddr_in& to) {
  const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
  must(rconnect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0, "rconnect");
  for (int round = 0; round < kRounds; ++round) {
    const std::string sent = "round " + std::to_string(round);
    char heard[64] = {};
    must(rsend(fd, sent.data(), sent.size(), 0) == static_cast<ssize_t>(sent.size()), "rsend");
    must(rrecv(fd, heard, sent.size(), MSG_WAITALL) == static_cast<ssize_t>(sent.size()) && heard == sent, "rrecv");
  }
  rclose(fd);
}

void sockets(const char* address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  inet_pton(AF_INET, address, &at.sin_addr);
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  must(rbind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0, "rbind");
  must(rlisten(listener, kClients) == 0, "rlisten");
  socklen_t length = sizeof(at);
  rgetsockname(listener, reinterpret_cast<sockaddr*>(&at), &length);
  std::thread server([&] { serve(listener); });
  std::array<std::thread, kClients> clients;
  for (std::thread& each : clients) each = std::thread([&] { talk(at); });
  for (std::thread& each : clients) each.join();
  server.join();
  rclose(listener);
  std::printf("repoll_wait: %d clients\n", kClients);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what == "events") {
    events(argv[2]);
  } else if (what == "sockets") {
    sockets(argv[2]);
  } else {
    std::fprintf(stderr, "usage: %s events|sockets ADDRESS\n", argv[0]);
    return 2;
  }
  return 0;
}
