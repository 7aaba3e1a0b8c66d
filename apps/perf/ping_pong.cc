#include "perf/ping_pong.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "perf/clock.h"
#include "perf/status.h"

namespace uroce::perf {
namespace {

/// When an engine on another core copies the packet, the mark may become visible before the bytes in front of it. So a
/// difference counts only if it stays.
constexpr uint64_t kSettleNs = 10'000'000;

uint32_t direction_of(bool client) { return client ? 0 : 1; }

}  // namespace

PingPong::PingPong(Endpoint& endpoint, const Options& options, const Plan& plan, bool client, Receiver* receiver)
    : endpoint_(endpoint),
      options_(options),
      plan_(plan),
      client_(client),
      receiver_(receiver),
      qp_(endpoint.qps()[0]),
      out_(endpoint.local(0)),
      in_(endpoint.exposed(0)),
      limit_(options.most_messages()),
      sampling_(!options.timed()) {
  in_[plan.size - 1] = mark(0);
  sge_ = {reinterpret_cast<uintptr_t>(out_), static_cast<uint32_t>(plan.size), endpoint.lkey()};
  request_.opcode = receiver == nullptr ? WrOpcode::rdma_write : WrOpcode::send;
  request_.flags = SendFlag::signaled;
  request_.remote_addr = endpoint.remote(0);
  request_.rkey = endpoint.peer().rkey;
  if (plan.use_inline) {
    request_.flags |= SendFlag::inline_data;
    request_.inline_data = {out_, plan.size};
  } else {
    request_.sges = {&sge_, 1};
  }
}

Step PingPong::step() {
  if (!started_) return Step::idle;
  Step did = completed_ < sent_ ? poll_completion() : Step::idle;
  if (did == Step::failed) return did;
  // The client sends ping n and then waits for answer n. The server waits for ping n and then sends answer n.
  const bool waiting = client_ ? taken_ < sent_ : taken_ == sent_ && taken_ < limit_;
  if (waiting && arrived()) {
    did = take_message();
    if (did == Step::failed) return did;
  }
  const bool my_turn = client_ ? taken_ == sent_ : taken_ > sent_;
  if (my_turn && sent_ - completed_ <= kUncompletedPings && sent_ < limit_) return send_message();
  return did;
}

Step PingPong::poll_completion() {
  if (endpoint_.send_cq().poll(completion_) == 0) return Step::idle;
  if (completion_[0].status != WcStatus::success) return give_up(explain(completion_[0], endpoint_, options_));
  ++completed_;
  return Step::progress;
}

bool PingPong::arrived() {
  if (receiver_ != nullptr) {
    if (receiver_->received() > taken_) return true;
    return receiver_->step() == Step::failed || receiver_->received() > taken_;
  }
  auto& last = reinterpret_cast<uint8_t&>(in_[plan_.size - 1]);
  return std::atomic_ref(last).load(std::memory_order_acquire) == static_cast<uint8_t>(mark(taken_ + 1));
}

Step PingPong::take_message() {
  if (receiver_ != nullptr && !receiver_->problem().empty()) return give_up(receiver_->problem());
  ++taken_;
  if (client_ && sampling_) {
    const uint64_t now = now_ns();
    if (histogram_.count() == 0) begin_ns_ = sent_ns_;
    histogram_.add(now - sent_ns_);
    // The next message follows at once. One look at the clock for each round trip, as in perftest.
    end_ns_ = sent_ns_ = now;
    stamped_ = true;
  }
  if (options_.verify && receiver_ == nullptr) {
    if (auto wrong = wrong_bytes()) return give_up(*wrong);
  }
  return Step::progress;
}

std::optional<std::string> PingPong::wrong_bytes() const {
  const PatternKey key{1 - direction_of(client_), 0, taken_ - 1};
  const uint64_t deadline = now_ns() + kSettleNs;
  for (;;) {
    const auto wrong = check_marked({in_, plan_.size}, key, mark(taken_));
    if (!wrong) return std::nullopt;
    if (now_ns() > deadline) return describe(*wrong, "WRITE", key, plan_.size);
    std::atomic_thread_fence(std::memory_order_acquire);
  }
}

Step PingPong::send_message() {
  if (options_.verify) fill_pattern({out_, plan_.size}, {direction_of(client_), 0, sent_});
  if (receiver_ == nullptr) out_[plan_.size - 1] = mark(sent_ + 1);
  if (client_ && !std::exchange(stamped_, false)) sent_ns_ = now_ns();
  if (const int error = qp_.post_send(request_); error != 0) {
    if (error == ENOMEM) return Step::idle;  // the engine has not freed the slot yet
    return give_up(fmt::format("QP {:#x} refused a {} of {} bytes: {}", qp_.qpn(), test_name(options_.test), plan_.size,
                               std::strerror(error)));
  }
  ++sent_;
  return Step::progress;
}

void PingPong::begin_sample() { sampling_ = true; }

void PingPong::end_sample() { sampling_ = false; }

void PingPong::stop() {
  if (client_) limit_ = sent_;
}

void PingPong::peer_stopped(uint64_t count) {
  if (!client_) limit_ = count;
}

bool PingPong::done() const { return completed_ == limit_ && taken_ == limit_ && sent_ == limit_; }

SizeReport PingPong::report() const {
  SizeReport r;
  r.size = plan_.size;
  r.iterations = histogram_.count();
  r.seconds = static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
  r.latency = summarize(histogram_, 2);
  if (options_.verify && receiver_ == nullptr) r.verified = taken_;  // else the receiver counts
  return r;
}

}  // namespace uroce::perf
