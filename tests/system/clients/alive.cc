// Two programs that send each other everything that verbs can, and see that each operation happens exactly once, in
// order, with the right bytes: SEND, WRITE with immediate data, READ, both atomics over RC with a receive queue of its
// own, over a shared one, and over XRC; SEND and WRITE with immediate data over UC; SEND over UD. Written for
// libibverbs alone. Until the client gets SIGTERM or SIGINT, or for --seconds.
//
//   alive --device NAME --port PORT [--timeout N] [--mtu BYTES] [--seconds N] [--lanes rc=4,srq=2] [HOST]
//
// Without HOST it is the server, whose lanes are the client's. The last line tells what passed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>

#include "alive_lane.h"

namespace alive {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSilence{60};   // without any completion, on a slow machine
constexpr std::chrono::seconds kTail{2};       // for the last messages of unreliable lanes
constexpr std::chrono::milliseconds kPace{2};  // of unreliable lanes
const char* const kKinds[] = {"rc", "srq", "xrc", "uc", "ud"};

volatile std::sig_atomic_t told_to_stop = 0;

struct Arguments {
  std::string device, host, lanes = "rc=3,srq=2,xrc=2,uc=1,ud=1";
  uint8_t timeout = 14;
  uint16_t port = 0;
  int mtu = 1024;
  double seconds = 1e9;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      out.host = word;
      continue;
    }
    if (++i == argc) die("give " + word + " a value");
    const std::string value = argv[i];
    if (word == "--device") {
      out.device = value;
    } else if (word == "--port") {
      out.port = static_cast<uint16_t>(std::stoul(value));
    } else if (word == "--timeout") {
      out.timeout = static_cast<uint8_t>(std::stoul(value));
    } else if (word == "--mtu") {
      out.mtu = std::stoi(value);
    } else if (word == "--seconds") {
      out.seconds = std::stod(value);
    } else if (word == "--lanes") {
      out.lanes = value;
    } else {
      die("there is no option " + word);
    }
  }
  if (out.device.empty() || out.port == 0) die("usage: alive --device NAME --port PORT [HOST]");
  return out;
}

/// The kinds of lanes, by the client's words.
std::vector<uint32_t> kinds_of(const std::string& lanes) {
  std::vector<uint32_t> kinds;
  std::istringstream words(lanes);
  for (std::string word; std::getline(words, word, ',');) {
    const auto equals = word.find('=');
    uint32_t kind = 0;
    while (kind < std::size(kKinds) && word.substr(0, equals) != kKinds[kind]) ++kind;
    if (kind == std::size(kKinds)) die("there is no kind of lane " + word);
    kinds.insert(kinds.end(), std::stoul(word.substr(equals + 1)), kind);
  }
  return kinds;
}

bool is_ipv4(const ibv_gid& gid) {
  static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

/// The TCP connection of both sides.
class Wire {
 public:
  explicit Wire(const Arguments& args) : server_(args.host.empty()) {
    const int one = 1;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(args.port);
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (server_) {
      setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
      if (bind(made, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(made, 1) != 0) die("cannot listen");
      std::puts("listening");
      std::fflush(stdout);
      fd_ = accept(made, nullptr, nullptr);
      close(made);
    } else {
      inet_pton(AF_INET, args.host.c_str(), &at.sin_addr);
      for (int tries = 0; connect(made, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0; ++tries) {
        if (tries == 300) die("cannot connect to the server");
        close(made);
        usleep(100000);
        made = socket(AF_INET, SOCK_STREAM, 0);
      }
      fd_ = made;
    }
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  int fd() const { return fd_; }
  bool is_server() const { return server_; }
  void put(const void* data, std::size_t n) const {
    if (send(fd_, data, n, MSG_NOSIGNAL) != static_cast<ssize_t>(n)) die("the other side has ended");
  }
  void get(void* data, std::size_t n) const {
    if (recv(fd_, data, n, MSG_WAITALL) != static_cast<ssize_t>(n)) die("the other side has ended");
  }
  template <class T>
  T exchange(const T& own) const {
    put(&own, sizeof own);
    T other;
    get(&other, sizeof other);
    return other;
  }

 private:
  const bool server_;
  int fd_ = -1;
};

class Program {
 public:
  explicit Program(const Arguments& args) : wire_(args), ends_(Clock::now() + limit(args)) {
    open(args);
    std::vector<uint32_t> kinds = wire_.is_server() ? std::vector<uint32_t>() : kinds_of(args.lanes);
    auto count = static_cast<uint32_t>(kinds.size());
    wire_.is_server() ? wire_.get(&count, sizeof count) : wire_.put(&count, sizeof count);
    kinds.resize(count);
    wire_.is_server() ? wire_.get(kinds.data(), 4 * count) : wire_.put(kinds.data(), 4 * count);
    host_.remote_gid = wire_.exchange(host_.gid);
    for (uint32_t number = 0; number < count; ++number) {
      lanes_.push_back(std::make_unique<Lane>(host(static_cast<Kind>(kinds[number])), static_cast<Kind>(kinds[number]),
                                              number, wire_.is_server()));
    }
    for (auto& lane : lanes_) {
      const LaneAddress remote = wire_.exchange(lane->address());
      lane->connect(remote);
      by_qpn_[lane->receiving_qpn()] = lane.get();
    }
    (void)wire_.exchange('c');
  }

  void run() {
    std::puts("running");
    std::fflush(stdout);
    must(ibv_req_notify_cq(host_.cq, 0), "ibv_req_notify_cq");
    while (!stopping()) turn(true);
    while (!idle()) turn(false);
    for (auto& lane : lanes_) {
      const Totals peer = wire_.exchange(lane->totals());
      const auto patience = Clock::now() + (lane->reliable() ? kSilence : kTail);
      while (!lane->agrees(peer) && Clock::now() < patience) turn(false);
      if (lane->reliable() && !lane->agrees(peer)) die("what the peer sent did not come");
      sum(*lane, peer);
    }
    // Until both have seen all: a queue pair that goes answers no retry.
    (void)wire_.exchange('e');
    std::printf("{\"messages\": %llu, \"atomics\": %llu, \"reads\": %llu, \"unreliable\": %llu, \"lost\": %llu}\n",
                messages_, atomics_, reads_, unreliable_, lost_);
  }

 private:
  using Sum = unsigned long long;

  static Clock::duration limit(const Arguments& args) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(args.seconds, 1e6)));
  }

  void open(const Arguments& args) {
    int count = 0;
    ibv_device** list = must(ibv_get_device_list(&count), "ibv_get_device_list");
    for (int i = 0; i < count; ++i) {
      if (args.device == ibv_get_device_name(list[i])) host_.context = ibv_open_device(list[i]);
    }
    must(host_.context, "ibv_open_device");
    ibv_free_device_list(list);
    host_.timeout = args.timeout;
    host_.mtu = args.mtu == 4096 ? IBV_MTU_4096 : args.mtu == 2048 ? IBV_MTU_2048 : IBV_MTU_1024;
    while (ibv_query_gid(host_.context, 1, host_.gid_index, &host_.gid) == 0 && !is_ipv4(host_.gid)) ++host_.gid_index;
    if (!is_ipv4(host_.gid)) die("the device has no IPv4 address");
    host_.pd = must(ibv_alloc_pd(host_.context), "ibv_alloc_pd");
    channel_ = must(ibv_create_comp_channel(host_.context), "ibv_create_comp_channel");
    host_.cq = must(ibv_create_cq(host_.context, 8192, nullptr, channel_, 0), "ibv_create_cq");
  }

  /// With what lanes of this kind share.
  Host& host(Kind kind) {
    if (kind == Kind::srq && host_.srq == nullptr) {
      ibv_srq_init_attr init{};
      init.attr = {.max_wr = 2048, .max_sge = 1, .srq_limit = 0};
      host_.srq = must(ibv_create_srq(host_.pd, &init), "ibv_create_srq");
    }
    if (kind == Kind::xrc && host_.xrcd == nullptr) {
      ibv_xrcd_init_attr init{};
      init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
      init.fd = -1;
      init.oflags = O_CREAT;
      host_.xrcd = must(ibv_open_xrcd(host_.context, &init), "ibv_open_xrcd");
    }
    return host_;
  }

  bool stopping() {
    if (!wire_.is_server()) {
      if (told_to_stop == 0 && Clock::now() < ends_) return false;
      if (!asked_) wire_.put("s", 1);
      asked_ = true;
      return true;
    }
    char byte = 0;
    const ssize_t got = recv(wire_.fd(), &byte, 1, MSG_DONTWAIT);
    if (got == 0) die("the client has ended");
    return got == 1;
  }

  bool any_reliable() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->reliable(); });
  }

  bool idle() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->idle(); });
  }

  void turn(bool sending) {
    bool any = take();
    const auto now = Clock::now();
    const bool paced = now >= next_pace_ && (answered_ || !any_reliable());
    if (paced) {
      next_pace_ = now + kPace;
      answered_ = false;
    }
    for (auto& lane : lanes_) {
      if (sending && (lane->reliable() || paced)) lane->send();
    }
    if (any) {
      last_ = now;
    } else {
      if (now - last_ > kSilence) die("nothing has completed for a minute");
      sleep();
    }
  }

  bool take() {
    ibv_wc completions[64];
    const int count = ibv_poll_cq(host_.cq, 64, completions);
    if (count < 0) die("ibv_poll_cq failed");
    for (const ibv_wc& wc : std::vector<ibv_wc>(completions, completions + count)) {
      Lane& owner = *lanes_.at(wc.wr_id >> 32 & 0x7fffffff);
      if (wc.wr_id >> 63 == 0) {
        owner.completed(wc);
        answered_ |= owner.reliable();
        continue;
      }
      const auto slot = static_cast<uint32_t>(wc.wr_id);
      const auto lane = by_qpn_.find(wc.qp_num);
      if (lane == by_qpn_.end()) die("a receive has the number of no queue pair: " + std::to_string(wc.qp_num));
      lane->second->received(wc, slot, owner.receive_slot(slot));
      owner.post_receive(slot);
    }
    return count != 0;
  }

  void sleep() {
    pollfd waits[] = {{.fd = channel_->fd, .events = POLLIN, .revents = 0}};
    if (::poll(waits, 1, static_cast<int>(kPace.count())) <= 0) return;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    must(ibv_get_cq_event(channel_, &cq, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
    must(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
  }

  void sum(const Lane& lane, const Totals& peer) {
    if (lane.reliable()) {
      messages_ += lane.totals().received;
      atomics_ += peer.adds + peer.swaps;
      reads_ += lane.totals().reads;
    } else {
      unreliable_ += lane.totals().received;
      lost_ += peer.messages - lane.totals().received;
    }
  }

  Wire wire_;
  const Clock::time_point ends_;
  Host host_;
  ibv_comp_channel* channel_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::map<uint32_t, Lane*> by_qpn_;
  Clock::time_point next_pace_{}, last_ = Clock::now();
  bool asked_ = false;
  // Unreliable lanes wait for the peer's answers to reliable ones. At their own pace they would fill the queue before a
  // peer that gets little of its CPU, and reliable requests behind them would be answered after their last retry.
  bool answered_ = false;
  Sum messages_ = 0, atomics_ = 0, reads_ = 0, unreliable_ = 0, lost_ = 0;
};

}  // namespace
}  // namespace alive

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { alive::told_to_stop = 1; });
  std::signal(SIGINT, [](int) { alive::told_to_stop = 1; });
  alive::Program(alive::parse(argc, argv)).run();
  return 0;
}
