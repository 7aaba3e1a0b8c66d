#include "perf/initiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "perf/clock.h"
#include "perf/status.h"

namespace uroce::perf {
namespace {

constexpr uint64_t kMostPeakMessages = 1u << 16;  ///< the search for the peak is quadratic

WrOpcode opcode_of(AtomicType type) {
  switch (type) {
    case AtomicType::fetch_and_add: return WrOpcode::fetch_add;
    case AtomicType::cmp_and_swap: return WrOpcode::compare_swap;
    case AtomicType::write: break;
  }
  return WrOpcode::atomic_write;
}

WrOpcode opcode_of(const Options& o) {
  switch (o.test.verb) {
    case Verb::write:
    case Verb::flush: return WrOpcode::rdma_write;
    case Verb::read: return WrOpcode::rdma_read;
    case Verb::atomic: return opcode_of(o.atomic_type);
    default: return WrOpcode::send;
  }
}

uint64_t peak_messages(const Options& o) {
  const uint64_t total = o.iters * o.qps;
  return o.no_peak || o.test.kind == Kind::lat || total > kMostPeakMessages ? 0 : total;
}

}  // namespace

Initiator::Initiator(Endpoint& endpoint, const Options& options, const Plan& plan, uint32_t direction)
    : endpoint_(endpoint),
      options_(options),
      plan_(plan),
      direction_(direction),
      cq_(endpoint.send_cq()),
      per_message_(requests_of_message(options.test)),
      latency_(options.test.kind == Kind::lat),
      sampling_(!options.timed()),
      peak_(peak_messages(options)) {
  for (uint32_t i = 0; i < options.qps; ++i) {
    streams_.push_back({&endpoint.qps()[i], endpoint.local(i), endpoint.remote(i), 0, 0, 0, 0, plan.cq_mod, 0});
  }
  pending_.reserve(streams_.size());
  if (!options.timed()) target_ = options.iters * options.qps;
  make_requests();
}

void Initiator::make_requests() {
  requests_.resize(plan_.list * per_message_);
  sges_.resize(plan_.list);
  for (uint32_t i = 0; i < plan_.list; ++i) {
    sges_[i] = {0, static_cast<uint32_t>(plan_.size), endpoint_.lkey()};
    SendRequest& request = requests_[i * per_message_];
    request.opcode = opcode_of(options_);
    request.rkey = endpoint_.peer().rkey;
    request.compare_add = options_.atomic_type == AtomicType::fetch_and_add ? 1 : 0;
    request.swap = 1;
    // An ATOMIC WRITE carries its value in the work request.
    const bool buffer = !plan_.use_inline && request.opcode != WrOpcode::atomic_write;
    if (buffer) request.sges = {&sges_[i], 1};
    if (options_.test.verb != Verb::flush) continue;
    SendRequest& flush = requests_[i * per_message_ + 1];
    flush.opcode = WrOpcode::flush;
    flush.rkey = request.rkey;
    flush.flush.length = static_cast<uint32_t>(plan_.size);
  }
}

void Initiator::start() {
  begin_ns_ = now_ns();
  begin_ticks_ = ticks();
  if (in_rounds()) return next_round();
  for (QpStream& stream : streams_) stream.limit = options_.most_messages();
  run_round();
}

/// Opens all streams up to their limits.
void Initiator::run_round() {
  if (in_rounds()) {
    round_ = RoundState::running;
    for (QpStream& stream : streams_) stream.limit = round_end_;
  }
  for (uint32_t i = 0; i < streams_.size(); ++i) enqueue(i);
}

void Initiator::enqueue(uint32_t index) {
  if (streams_[index].pending != 0) return;
  streams_[index].pending = 1;
  pending_.push_back(index);
}

bool Initiator::done() const {
  if (in_rounds()) return round_ == RoundState::finished && completed_ == target_;
  return (stopping_ || !options_.timed()) && completed_ == target_;  // a timed run has no target until it is stopped
}

void Initiator::stop() {
  if (stopping_) return;
  stopping_ = true;
  if (in_rounds()) return;
  target_ = 0;
  for (QpStream& stream : streams_) {
    // The last request must be signaled, or its completion would never be seen.
    stream.limit = (stream.posted + plan_.cq_mod - 1) / plan_.cq_mod * plan_.cq_mod;
    target_ += stream.limit;
  }
  for (uint32_t i = 0; i < streams_.size(); ++i) enqueue(i);
}

Step Initiator::step() {
  const std::size_t count = cq_.poll(completions_);
  for (std::size_t i = 0; i < count; ++i) {
    if (!complete(completions_[i])) return Step::failed;
  }
  bool posted = false;
  for (std::size_t left = pending_.size(); left > 0; --left) {
    const uint32_t index = pending_.back();
    pending_.pop_back();
    streams_[index].pending = 0;
    const uint64_t before = posted_;
    if (!fill(index)) return Step::failed;
    if (streams_[index].pending != 0 && posted_ == before) break;  // the queue is still full; try later
    posted |= posted_ != before;
  }
  if (round_ == RoundState::running && completed_ == round_end_ * streams_.size()) round_completed();
  return count > 0 || posted ? Step::progress : Step::idle;
}

/// Posts on one stream up to its depth. False when the QP refuses for another reason than a full queue.
bool Initiator::fill(uint32_t index) {
  QpStream& stream = streams_[index];
  while (stream.posted < stream.limit) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(plan_.list, stream.limit - stream.posted));
    if (stream.posted + count > stream.completed + plan_.depth) return true;
    build(stream, index, count);
    if (latency_) posted_ns_ = now_ns();
    const uint64_t stamp = peak_.on() ? ticks() : 0;
    int error = 0;
    std::size_t accepted = 1;
    if (count * per_message_ == 1) {
      error = stream.qp->post_send(requests_[0]);
      accepted = error == 0 ? 1 : 0;
    } else {
      // The queue has room for whole messages.
      accepted = stream.qp->post_send(std::span(requests_.data(), count * per_message_), &error) / per_message_;
    }
    if (peak_.on()) {
      for (std::size_t i = 0; i < accepted; ++i) peak_.posted(posted_ + i, stamp);
    }
    advance(stream, static_cast<uint32_t>(accepted));
    if (accepted == count) continue;
    if (error == ENOMEM) {
      enqueue(index);
      return true;
    }
    give_up(fmt::format("QP {:#x} refused a {} of {} bytes: {}", stream.qp->qpn(), test_name(options_.test), plan_.size,
                        std::strerror(error)));
    return false;
  }
  return true;
}

/// Makes the next `count` requests of `stream` in requests_.
void Initiator::build(const QpStream& stream, uint32_t index, uint32_t count) {
  uint32_t slot = stream.slot;
  uint32_t until_signal = stream.until_signal;
  for (uint32_t i = 0; i < count; ++i) {
    SendRequest& request = requests_[i * per_message_];
    SendRequest& last = requests_[(i + 1) * per_message_ - 1];
    std::byte* const local = stream.local + slot * plan_.stride;
    const bool signaled = --until_signal == 0 || stream.posted + i + 1 == stream.limit;
    if (until_signal == 0) until_signal = plan_.cq_mod;
    request.flags = SendFlags();
    request.wr_id = last.wr_id = index;
    request.remote_addr = last.remote_addr = stream.remote + slot * plan_.stride;
    last.flags = signaled ? SendFlags(SendFlag::signaled) : SendFlags();
    if (plan_.use_inline) {
      request.flags |= SendFlag::inline_data;
      request.inline_data = {local, plan_.size};
    } else {
      sges_[i].addr = reinterpret_cast<uintptr_t>(local);
    }
    if (options_.verify) set_operands(request, slot, index, stream.posted + i);
    if (++slot == plan_.ring) slot = 0;
  }
}

void Initiator::advance(QpStream& stream, uint32_t count) {
  stream.posted += count;
  posted_ += count;
  stream.slot += count;
  while (stream.slot >= plan_.ring) stream.slot -= plan_.ring;
  while (count >= stream.until_signal) {
    count -= stream.until_signal;
    stream.until_signal = plan_.cq_mod;
  }
  stream.until_signal -= count;
}

/// Takes one completion, which also completes all messages before it. False on an error or a wrong byte.
bool Initiator::complete(const Completion& completion) {
  if (completion.status != WcStatus::success) {
    give_up(explain(completion, endpoint_, options_));
    return false;
  }
  const auto index = static_cast<uint32_t>(completion.wr_id);
  QpStream& stream = streams_[index];
  const uint64_t before = stream.completed;
  stream.completed = std::min(before + plan_.cq_mod, stream.posted);
  completed_ += stream.completed - before;
  if (latency_ && sampling_) histogram_.add(now_ns() - posted_ns_);
  if (peak_.on()) peak_.completed(completed_ - 1, ticks());
  if (options_.verify) {
    for (uint64_t i = before; i < stream.completed; ++i) {
      if (!verify(stream, index, i)) return false;
    }
  }
  if (completed_ == target_ && !options_.timed()) {
    end_ns_ = now_ns();
    end_count_ = completed_;
    ticks_per_ns_ = static_cast<double>(ticks() - begin_ticks_) / static_cast<double>(end_ns_ - begin_ns_ + 1);
  }
  return fill(index);
}

void Initiator::begin_sample() {
  begin_ns_ = now_ns();
  begin_count_ = completed_;
  sampling_ = true;
}

void Initiator::end_sample() {
  if (end_ns_ != 0) return;
  end_ns_ = now_ns();
  end_count_ = completed_;
  sampling_ = false;
}

SizeReport Initiator::report() const {
  SizeReport r;
  r.size = plan_.size;
  r.iterations = end_count_ - begin_count_;
  r.seconds = static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
  r.peak_rate = peak_.best() * ticks_per_ns_ * 1e9;
  r.verified = verified_;
  if (latency_) r.latency = summarize(histogram_, 1);
  return r;
}

}  // namespace uroce::perf
