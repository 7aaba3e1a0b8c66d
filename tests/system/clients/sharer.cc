// Shares the daemon with others. It has both ends of its queue pairs, on uroce0 and uroce1, and sends from the first.
//
// Usage: sharer load QPS     keeps a second's worth of RDMA WRITEs posted, and sleeps between, so that it uses no core
//        sharer bomb QPS     fills send queues, moves their queue pairs to ERROR at the command `go`, and tells at the
//                            next one how many work requests have been flushed, and of how many
//        sharer victim       with one queue pair: `bw SECONDS` tells Gb/s of 64 KiB WRITEs, `lat SECONDS` tells in us
//        the
//                            median, the 99th percentile and the most of the time from posting 8 bytes to completion
//
// It says `ready`, and ends with its standard input.
#include <poll.h>

#include <algorithm>
#include <iostream>

#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kLoadBytes = 1 << 18, kLoadMessages = 1 << 17, kMostMessages = 1 << 15, kBombDepth = 1 << 15;
constexpr int kNapMs = 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Queue pairs from one device to the other, and memory for them.
struct Pairs {
  Side from{"uroce0", 1 << 14}, to{"uroce1"};
  std::vector<std::byte> source, target;
  MemoryRegion source_mr, target_mr;
  std::vector<QueuePair> senders, receivers;

  Pairs(std::size_t bytes, std::size_t count, const QpCap& cap)
      : source(bytes),
        target(bytes),
        source_mr(must(from.pd.register_memory(source.data(), bytes, Side::kAll))),
        target_mr(must(to.pd.register_memory(target.data(), bytes, Side::kAll))) {
    const Gid from_gid = from.context.info().gids[0], to_gid = to.context.info().gids[0];
    for (std::size_t i = 0; i < count; ++i) {
      senders.push_back(from.make_qp(cap));
      receivers.push_back(to.make_qp({.max_send_wr = 1, .max_recv_wr = 1}));
      must(senders[i].connect({to_gid, receivers[i].qpn(), 1}, {.psn = 1, .path_mtu = Mtu::mtu4096}));
      must(receivers[i].connect({from_gid, senders[i].qpn(), 1}, {.psn = 1, .path_mtu = Mtu::mtu4096}));
    }
  }
  int post(QueuePair& qp, uint32_t bytes, bool signaled, uint64_t id = 0) const {
    const Sge sge = source_mr.sge(0, bytes);
    return qp.post_send({.wr_id = id,
                         .opcode = WrOpcode::rdma_write,
                         .flags = signaled ? SendFlags(SendFlag::signaled) : SendFlags{},
                         .sges = {&sge, 1},
                         .remote_addr = reinterpret_cast<uint64_t>(target.data()),
                         .rkey = target_mr.rkey()});
  }
};

void say(const std::string& line) { std::cout << line << std::endl; }

// A quarter of each queue is signaled at once. Each wake-up posts in the place of what has completed.
void load(uint32_t qps) {
  const uint32_t quarter = std::clamp(kLoadMessages / qps / 4, 8u, kMostMessages / 4);
  Pairs pairs(kLoadBytes, qps, {.max_send_wr = 4 * quarter, .max_recv_wr = 1});
  const auto post_quarter = [&](uint32_t index) {
    for (uint32_t i = 1; i <= quarter; ++i) {
      if (pairs.post(pairs.senders[index], kLoadBytes, i == quarter, index) != 0) die("post_send");
    }
  };
  for (uint32_t i = 0; i < 4 * qps; ++i) post_quarter(i / 4);
  say("ready");
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (poll(&input, 1, kNapMs) == 0) {
    for (Completion completion; pairs.from.cq.poll({&completion, 1}) != 0;) {
      if (completion.status != WcStatus::success) die("a WRITE of the load failed");
      post_quarter(static_cast<uint32_t>(completion.wr_id));
    }
  }
}

// The peers have no receive, so all that is posted waits.
void bomb(uint32_t qps) {
  Side from("uroce0"), to("uroce1");
  const Gid from_gid = from.context.info().gids[0], to_gid = to.context.info().gids[0];
  std::vector<CompletionQueue> cqs;
  std::vector<QueuePair> bombs, peers;
  for (uint32_t i = 0; i < qps; ++i) {
    cqs.push_back(must(from.context.create_cq(kBombDepth)));
    bombs.push_back(must(from.context.create_qp(from.pd, cqs[i], cqs[i], {.cap = {.max_send_wr = kBombDepth}})));
    peers.push_back(to.make_qp());
    must(bombs[i].connect({to_gid, peers[i].qpn(), 1}, {.psn = 1}));
    must(peers[i].connect({from_gid, bombs[i].qpn(), 1}, {.psn = 1, .min_rnr_timer = 0}));
    for (uint32_t sent = 0; sent < kBombDepth; ++sent) {
      if (bombs[i].post_send({.opcode = WrOpcode::send}) != 0) die("post_send");
    }
  }
  say("ready");
  std::string line;
  if (!std::getline(std::cin, line)) return;
  QpAttr error;
  error.state = QpState::error;
  for (auto& qp : bombs) must(qp.modify(error, QpAttrBit::state));
  // Sleeps while the victim's latency is taken, as the two share a core.
  std::getline(std::cin, line);
  uint64_t flushed = 0;
  std::vector<Completion> completions(256);
  for (auto& cq : cqs) {
    while (const std::size_t count = cq.poll(completions)) flushed += count;
  }
  say(std::to_string(flushed) + " " + std::to_string(uint64_t{qps} * kBombDepth));
}

double bandwidth(Pairs& pairs, double seconds) {
  constexpr uint32_t kBytes = 65536, kDepth = 256, kSignal = 16;
  uint64_t posted = 0, done = 0, first = 0;
  Clock::time_point start{};
  const auto begun = Clock::now();
  // The first messages find empty queues, so they do not count.
  for (const double warm_up = 0.2; seconds_since(begun) < warm_up + seconds;) {
    while (posted - done < kDepth && pairs.post(pairs.senders[0], kBytes, (posted + 1) % kSignal == 0) == 0) ++posted;
    Completion completion;
    while (pairs.from.cq.poll({&completion, 1}) != 0) {
      if (completion.status != WcStatus::success) die("a WRITE failed");
      done += kSignal;
    }
    if (start == Clock::time_point{} && seconds_since(begun) > warm_up) start = Clock::now(), first = done;
  }
  const double rate = static_cast<double>(done - first) * kBytes * 8 / seconds_since(start) / 1e9;
  while (done < posted / kSignal * kSignal) {
    Completion completion;
    if (pairs.from.cq.poll({&completion, 1}) != 0) done += kSignal;
  }
  return rate;
}

std::string latency(Pairs& pairs, double seconds) {
  std::vector<double> us;
  for (const auto begun = Clock::now(); seconds_since(begun) < seconds;) {
    const auto start = Clock::now();
    if (pairs.post(pairs.senders[0], 8, true) != 0) die("post_send");
    Completion completion;
    while (pairs.from.cq.poll({&completion, 1}) == 0) {
    }
    us.push_back(seconds_since(start) * 1e6);
  }
  std::ranges::sort(us);
  const auto at = [&](double share) { return std::to_string(us[static_cast<std::size_t>(share * (us.size() - 1))]); };
  return at(0.5) + " " + at(0.99) + " " + at(1);
}

void victim() {
  Pairs pairs(65536, 1, {.max_send_wr = 512, .max_recv_wr = 1});
  say("ready");
  std::string command;
  double seconds;
  while (std::cin >> command >> seconds) {
    say(command == "bw" ? std::to_string(bandwidth(pairs, seconds)) : latency(pairs, seconds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  const uint32_t qps = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 0;
  if (role == "victim") return victim(), 0;
  if (qps == 0) die("usage: sharer load QPS | bomb QPS | victim");
  role == "load" ? load(qps) : bomb(qps);
  return 0;
}
