#include "tests/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace uroce::test {

World::World(const WorldOptions& options, FaultPolicy& faults)
    : options_(options), random_(options.seed), local_random_(options.seed ^ 0x10ca1) {
  std::vector<TestEndpoint*> pointers;
  for (uint32_t i = 0; i < (options.loopback ? 1u : 2u); ++i) {
    EndpointOptions host;
    host.engine.max_qps = 64;
    host.max_regions = options.max_regions;
    host.engine.window_packets = options.window_packets;
    host.engine.long_windows = 64;  // beyond what the hosts need, and quickly made
    host.engine.settings.retransmission = options.retransmission[i];
    host.engine.settings.congestion.algorithm = options.congestion;
    host.engine.settings.congestion.plb_rounds = options.plb_rounds;
    host.engine.settings.parking_frames = options.parking_frames;
    host.engine.plain_path = options.plain_path;
    host.engine.seed = options.seed * 2 + i;
    host.gid = Gid::from_ipv4(0x0a000001 + i);
    host.mac.bytes[5] = static_cast<uint8_t>(1 + i);
    host.seed = options.seed * 2 + i;
    pointers.push_back(hosts_.emplace_back(std::make_unique<TestEndpoint>(host)).get());
  }
  network_ = std::make_unique<Network>(pointers, faults, options.delay, random_.next());
  for (uint32_t i = 0; i < options.qps; ++i) connect(i);
  if (options.local != 0) link();
}

// The receiver handles the frames while the sender still polls; alone on its host, the sender does so itself.
void World::link() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    TestEndpoint& receiver = *hosts_[hosts_.size() - 1 - i];
    hosts_[i]->sink().set_local([this, &receiver](std::span<const transport::TxFrame> frames) {
      if (!network_->quiet() || !local_random_.chance(options_.local)) return false;
      receiver.engine().on_local_frames(frames, network_->now());
      local_frames_ += frames.size();
      return true;
    });
  }
}

void World::connect(uint32_t number) {
  TestEndpoint& a = *hosts_.front();
  TestEndpoint& b = *hosts_.back();
  struct Side {
    TestEndpoint* host;
    TestCq* send_cq;
    TestCq* recv_cq;
    TestQp* qp;
  };
  uint32_t srqn = 0;
  const auto make = [&](TestEndpoint& host, uint32_t qpn, QpType type) {
    Side side{&host, &host.make_cq(256), &host.make_cq(256), nullptr};
    TestQp::Options qp;
    qp.qpn = qpn;
    qp.cap.max_send_wr = options_.send_wr;
    qp.cap.max_recv_wr = options_.flow.recv_depth;
    qp.signal_all = false;
    qp.send_cq = side.send_cq;
    qp.recv_cq = side.recv_cq;
    qp.type = type;
    qp.remote_srqn = srqn;
    if (type == QpType::xrc_target) {
      constexpr uint32_t kDomain = 1;
      qp.xrc_domain = kDomain;
      qp.srq = &host.make_xrc_srq(kDomain, *side.recv_cq, std::bit_ceil(options_.flow.recv_depth));
      srqn = qp.srq->srq().id;
    }
    side.qp = &host.make_qp(qp);
    return side;
  };
  const Side right = make(b, 3 + 2 * number, options_.xrc ? QpType::xrc_target : QpType::rc);
  const Side left = make(a, 2 + 2 * number, options_.xrc ? QpType::xrc_initiator : QpType::rc);
  // A quarter of the flows begins just before the PSN wraps.
  const auto first_psn = [this] {
    return static_cast<uint32_t>(random_.chance(0.25) ? 0xfffff0 + random_.below(16) : random_.below(1 << 24));
  };
  ConnectOptions to_right = options_.connection;
  to_right.dest_qpn = right.qp->qpn();
  to_right.sq_psn = first_psn();
  to_right.rq_psn = first_psn();
  ConnectOptions to_left = to_right;
  to_left.dest_qpn = left.qp->qpn();
  std::swap(to_left.sq_psn, to_left.rq_psn);
  left.qp->connect(to_right, a.route_to(b), options_.loopback);
  right.qp->connect(to_left, b.route_to(a), options_.loopback);
  flows_.push_back(
      std::make_unique<Flow>(a, *left.qp, *left.send_cq, b, *right.qp, *right.recv_cq, options_.flow, random_.next()));
  if (!options_.both_ways) return;
  flows_.push_back(
      std::make_unique<Flow>(b, *right.qp, *right.send_cq, a, *left.qp, *left.recv_cq, options_.flow, random_.next()));
}

bool World::failed() const {
  return std::any_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->failed(); });
}

std::string World::outstanding() const {
  std::string text = "outstanding:";
  for (std::size_t i = 0; i < flows_.size(); ++i) text += fmt::format(" flow {}: {};", i, flows_[i]->describe_oldest());
  return text;
}

std::string World::failures() const {
  std::string text;
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    if (!flows_[i]->failed()) continue;
    text += fmt::format(" flow {} failed: opcode {} with status {};", i, static_cast<int>(flows_[i]->failed_opcode()),
                        static_cast<int>(*flows_[i]->failure()));
  }
  return text;
}

// `post(flow index)` posts what it likes and returns true when that flow has nothing more to post, ever.
template <class Post>
std::string World::drive(Post&& post, Nanos patience) {
  Nanos next_receives{0};
  uint64_t pauses = 0;
  const Nanos give_up = network_->now() + patience;
  while (true) {
    bool all_posted = true;
    const bool give_receives = !options_.slow_receiver || network_->now() >= next_receives;
    if (options_.slow_receiver && give_receives) {
      next_receives = network_->now() + Nanos(static_cast<int64_t>(random_.below(200'000)));
    }
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = *flows_[i];
      if (give_receives) {
        flow.post_receives(options_.slow_receiver ? flow.receives_posted() + 1 + static_cast<uint32_t>(random_.below(4))
                                                  : options_.flow.recv_depth);
      }
      all_posted = (flow.failed() || post(i)) && all_posted;
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) network_->run(i);
    bool idle = true;
    bool completions = false;
    for (auto& flow : flows_) {
      completions |= flow->poll();
      if (!flow->violation().empty()) return flow->violation();
      idle = idle && flow->idle();
    }
    if (after_events_) after_events_();
    if (all_posted && idle) return check_end();
    if (options_.prompt && completions) continue;
    Nanos next = network_->next_event();
    if (options_.slow_receiver) next = std::min(next, next_receives);
    if (next == kNever && all_posted) return "no event will ever happen, " + outstanding();
    if (network_->now() > give_up) return "no end in sight: " + outstanding();
    // An application that merely pauses posts again a little later.
    pauses = next == kNever ? pauses + 1 : 0;
    if (pauses > 10'000) return "the engines rest, and yet the send queues do not empty; " + outstanding();
    network_->advance_to(next == kNever ? network_->now() + Nanos(1'000) : next);
  }
}

void World::settle() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) network_->run(i);
  while (network_->next_event() != kNever) network_->advance_to(network_->next_event());
}

std::string World::check_end() {
  // Late copies and answers nobody waits for; afterwards all must rest.
  for (int i = 0; i < 1'000'000 && network_->next_event() != kNever; ++i) network_->advance_to(network_->next_event());
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i]->engine().next_deadline() != kNever) return fmt::format("host {} still runs a timer", i);
    if (hosts_[i]->engine().has_work()) return fmt::format("host {} still has work", i);
    if (const uint32_t kept = hosts_[i]->engine().parked_frames(); kept != 0 && !failed()) {
      return fmt::format("host {} still keeps {} frames", i, kept);
    }
    if (const std::size_t held = hosts_[i]->held_of_xrc_queues(); held != 0 && !failed()) {
      return fmt::format("host {} says that {} receives are held", i, held);
    }
    if (!hosts_[i]->guards_intact()) return fmt::format("host {} wrote outside a region", i);
  }
  for (auto& flow : flows_) {
    flow->poll();
    if (!flow->failed() && !failed()) flow->check_memory();
    if (!flow->violation().empty()) return flow->violation();
  }
  return {};
}

std::string World::run(const std::vector<Op>& ops) {
  std::vector<std::size_t> next(flows_.size());
  return drive(
      [&](std::size_t i) {
        while (next[i] < ops.size() && flows_[i]->post(ops[next[i]])) ++next[i];
        return next[i] == ops.size();
      },
      std::chrono::seconds(30));
}

std::string World::run_random(uint64_t count, const std::function<void()>& faults_stop) {
  std::vector<uint64_t> posted(flows_.size());
  std::vector<std::optional<Op>> held(flows_.size());
  bool stopped = false;
  return drive(
      [&](std::size_t i) {
        // Now and then the application pauses, so that queues run empty as well as full.
        const uint64_t burst = random_.below(12);
        for (uint64_t n = 0; n < burst && posted[i] < count; ++n) {
          Op op = held[i] ? *held[i] : random_op(random_, options_.flow);
          if (posted[i] + 1 == count) op.signaled = true;
          held[i] = op;
          if (!flows_[i]->post(op)) break;
          held[i].reset();
          ++posted[i];
        }
        if (!stopped && flows_[i]->completed() >= count * 3 / 4) {
          stopped = true;
          faults_stop();
        }
        return posted[i] == count;
      },
      std::chrono::seconds(600));
}

}  // namespace uroce::test
