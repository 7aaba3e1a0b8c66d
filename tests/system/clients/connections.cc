// One side of many rdma_cm connections, as a program with many peers makes them: one thread, one event channel, one
// completion queue. Written for librdmacm alone, so that it runs on Linux's rdma_cm as well.
//
//   connections server ADDRESS         accepts; prints "port N" once it listens
//   connections client ADDRESS PORT
//
// Both read commands, one a line, and answer each with a line of JSON:
//   prepare COUNT         client: makes ids and queue pairs, and resolves addresses and routes
//   connect WINDOW        client: connects them, at most WINDOW between connect and established
//   cycle COUNT WINDOW    client: both, and each ends as soon as it stands; WINDOW at a time
//   close                 client: ends all that are open, and waits until each is told so
//   count N               server: waits until N connections are open
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMilliseconds = 5000;
constexpr std::chrono::seconds kPatience(60);  // without any event

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", why.c_str(), std::strerror(errno));
  std::exit(1);
}
void must(int result, const char* call) {
  if (result != 0) die(call);
}

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// Seconds since the last look, by the wall and of this process's CPU.
class Watch {
 public:
  std::string lap(const char* name) {
    const auto now = Clock::now();
    const double cpu = cpu_seconds();
    char text[160];
    std::snprintf(text, sizeof text, "\"%s_s\": %.6f, \"%s_cpu_s\": %.6f", name,
                  std::chrono::duration<double>(now - wall_).count(), name, cpu - cpu_);
    wall_ = now;
    cpu_ = cpu;
    return text;
  }

 private:
  Clock::time_point wall_ = Clock::now();
  double cpu_ = cpu_seconds();
};

class Side {
 public:
  explicit Side(const char* address, const char* port) {
    address_.sin_family = AF_INET;
    if (inet_pton(AF_INET, address, &address_.sin_addr) != 1) die("no IPv4 address");
    if (port != nullptr) address_.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
    channel_ = rdma_create_event_channel();
    if (channel_ == nullptr) die("rdma_create_event_channel");
    must(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), "fcntl");
  }

  void listen() {
    must(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_id");
    must(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address_)), "rdma_bind_addr");
    must(rdma_listen(listener_, 0), "rdma_listen");
    std::printf("port %d\n", ntohs(rdma_get_src_port(listener_)));
  }

  /// Reads commands and handles events until the commands end.
  void serve() {
    while (commands_) {
      pollfd waiting[] = {{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                          {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
      poll(waiting, 2, -1);
      if (waiting[0].revents != 0) handle_events();
      if (waiting[1].revents != 0) read_commands();
    }
  }

 private:
  void read_commands() {
    std::string line;
    if (!std::getline(std::cin, line)) {
      commands_ = false;
      return;
    }
    std::istringstream words(line);
    std::string verb;
    std::size_t count = 0, window = 1;
    words >> verb >> count >> window;
    if (verb == "prepare") return prepare_all(count);
    if (verb == "connect") return connect_all(count);
    if (verb == "cycle") return cycle(count, window);
    if (verb == "close") return close_all();
    if (verb == "count") {
      wait_until([&] { return open_.size() == count; });
      return answer("");
    }
    die("no command: " + line);
  }

  void answer(const std::string& more) {
    std::printf("{\"open\": %zu, \"established\": %zu, \"failed\": %zu%s%s}\n", open_.size(), established_, failed_,
                more.empty() ? "" : ", ", more.c_str());
    std::fflush(stdout);
  }

  template <class Done>
  void wait_until(Done done) {
    auto last = Clock::now();
    while (!done()) {
      pollfd waiting{.fd = channel_->fd, .events = POLLIN, .revents = 0};
      poll(&waiting, 1, 1000);
      if (handle_events()) last = Clock::now();
      if (Clock::now() - last > kPatience) die("no event for a minute");
    }
  }

  bool handle_events() {
    bool any = false;
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_, &event) == 0) {
      any = true;
      rdma_cm_id* id = event->id;
      const rdma_cm_event_type type = event->event;
      rdma_ack_cm_event(event);
      handle(id, type);
    }
    return any;
  }

  void handle(rdma_cm_id* id, rdma_cm_event_type type) {
    switch (type) {
      case RDMA_CM_EVENT_ADDR_RESOLVED: return must(rdma_resolve_route(id, kMilliseconds), "rdma_resolve_route");
      case RDMA_CM_EVENT_ROUTE_RESOLVED: ready_.push_back(id); return;
      case RDMA_CM_EVENT_CONNECT_REQUEST: return accept(id);
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established_;
        open_.insert(id);
        if (pending_ > 0) --pending_;
        if (cycle_) must(rdma_disconnect(id), "rdma_disconnect");
        return;
      case RDMA_CM_EVENT_DISCONNECTED: open_.erase(id); return destroy(id);
      case RDMA_CM_EVENT_TIMEWAIT_EXIT: return;
      default:
        std::fprintf(stderr, "%s\n", rdma_event_str(type));
        ++failed_;
        if (pending_ > 0) --pending_;
        open_.erase(id);
        return destroy(id);
    }
  }

  void accept(rdma_cm_id* id) {
    make_qp(id);
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    param.rnr_retry_count = 7;
    must(rdma_accept(id, &param), "rdma_accept");
  }

  void make_qp(rdma_cm_id* id) {
    if (cq_ == nullptr) {
      pd_ = ibv_alloc_pd(id->verbs);
      cq_ = ibv_create_cq(id->verbs, 4096, nullptr, nullptr, 0);
      if (pd_ == nullptr || cq_ == nullptr) die("ibv_create_cq");
    }
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    must(rdma_create_qp(id, pd_, &attr), "rdma_create_qp");
  }

  void destroy(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    must(rdma_destroy_id(id), "rdma_destroy_id");
    if (live_ > 0) --live_;
  }

  void prepare(std::size_t count) {
    const std::size_t wanted = ready_.size() + count;
    for (std::size_t i = 0; i < count; ++i) {
      rdma_cm_id* id = nullptr;
      must(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
      must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address_), kMilliseconds), "rdma_resolve_addr");
      ++live_;
    }
    wait_until([&] { return ready_.size() == wanted; });
  }

  void connect(rdma_cm_id* id) {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    param.retry_count = param.rnr_retry_count = 7;
    must(rdma_connect(id, &param), "rdma_connect");
    ++pending_;
  }

  void prepare_all(std::size_t count) {
    Watch watch;
    prepare(count);
    const std::string resolved = watch.lap("resolve");
    for (rdma_cm_id* id : ready_) make_qp(id);
    answer(resolved + ", " + watch.lap("create_qp"));
  }

  void connect_ready(std::size_t window) {
    for (rdma_cm_id* id : std::exchange(ready_, {})) {
      connect(id);
      wait_until([&] { return pending_ < window; });
    }
  }

  void connect_all(std::size_t window) {
    Watch watch;
    connect_ready(window);
    wait_until([&] { return pending_ == 0; });
    answer(watch.lap("connect"));
  }

  void cycle(std::size_t count, std::size_t window) {
    Watch watch;
    cycle_ = true;
    for (std::size_t done = 0; done < count; done += window) {
      prepare(std::min(window, count - done));
      for (rdma_cm_id* id : ready_) make_qp(id);
      connect_ready(window);
      wait_until([&] { return live_ == 0; });
    }
    cycle_ = false;
    answer(watch.lap("cycle"));
  }

  void close_all() {
    Watch watch;
    for (rdma_cm_id* id : open_) must(rdma_disconnect(id), "rdma_disconnect");
    wait_until([&] { return open_.empty(); });
    answer(watch.lap("close"));
  }

  sockaddr_in address_{};
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<rdma_cm_id*> ready_;  // resolved, not connecting yet
  std::unordered_set<rdma_cm_id*> open_;
  std::size_t pending_ = 0;  // between connect and established
  std::size_t live_ = 0;     // the client's ids
  std::size_t established_ = 0;
  std::size_t failed_ = 0;
  bool cycle_ = false;
  bool commands_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::cin.sync_with_stdio(true);
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // poll() must see what is not read yet
  const std::string role = argc > 2 ? argv[1] : "";
  if (role == "server" && argc == 3) {
    Side side(argv[2], nullptr);
    side.listen();
    side.serve();
  } else if (role == "client" && argc == 4) {
    Side side(argv[2], argv[3]);
    side.serve();
  } else {
    std::fprintf(stderr, "usage: connections server ADDRESS | connections client ADDRESS PORT\n");
    return 2;
  }
  return 0;
}
