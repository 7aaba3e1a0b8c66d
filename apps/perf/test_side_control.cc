// The work of a side beside the data path: time, signs of life, messages.
#include <fmt/format.h>

#include <algorithm>

#include "perf/clock.h"
#include "perf/status.h"
#include "perf/test_side.h"

namespace uroce::perf {
namespace {

constexpr uint64_t kReadEveryNs = 1'000'000;  ///< each read costs a system call
constexpr uint64_t kReadEveryVerifyNs = 20'000;
constexpr uint64_t kBeatEveryNs = 1'000'000'000;

}  // namespace

/// Does everything that is not the data path. True when a message was taken.
bool TestSide::step_control() {
  uint64_t now = now_ns();
  bool heard = false;
  const uint64_t every = phase_ != Phase::run ? 0 : options_.verify ? kReadEveryVerifyNs : kReadEveryNs;
  if (now - last_read_ns_ >= every) {
    last_read_ns_ = now;
    heard = read_channel();
    now = now_ns();  // a message may have begun the run, later than the time above
  }
  if (phase_ == Phase::finished) return true;
  if (phase_ == Phase::link) {
    wait_for_link(now);
  } else if (phase_ == Phase::connect) {
    await_connection();
  }
  if (phase_ == Phase::run) keep_time(now);
  watch(now, heard);
  if (phase_ == Phase::run) check_finished();
  return heard;
}

void TestSide::keep_time(uint64_t now) {
  const uint64_t elapsed = now - run_began_ns_;
  if (sender_ && options_.timed()) {
    const uint64_t margin = to_ns(options_.margin_s), duration = to_ns(options_.duration_s);
    if (!sample_begun_ && elapsed >= margin) {
      sample_begun_ = true;
      sender_->begin_sample();
    }
    if (!sample_ended_ && elapsed >= duration - margin) {
      sample_ended_ = true;
      sender_->end_sample();
    }
    if (client_ && elapsed >= duration) sender_->stop();
  }
  if (table_ != nullptr && sender_) {
    table_->progress(static_cast<double>(elapsed) * 1e-9, sender_->sent() - sender_->outstanding());
  }
}

/// Sends signs of life. Ends the test when the peer sends none, or when work makes no progress.
void TestSide::watch(uint64_t now, bool heard) {
  if (heard) last_heard_ns_ = now;
  if (now - last_beat_ns_ >= kBeatEveryNs) {
    last_beat_ns_ = now;
    send(MessageType::beat);
  }
  const double silent_s = static_cast<double>(now - std::min(now, last_heard_ns_)) * 1e-9;
  if (silent_s > options_.peer_timeout_s) {
    return give_up(
        fmt::format("the peer was silent for {:.1f} s; check that it runs, or wait longer with "
                    "--peer-timeout",
                    silent_s));
  }
  if (phase_ != Phase::run || !sender_ || sender_->outstanding() == 0) {
    last_progress_ns_ = now;
    return;
  }
  // Let the QP's own timers expire first, because their error says more.
  const double timeout_s = std::max(options_.peer_timeout_s, 2 * retry_budget_s(options_.qp_timeout) + 1);
  const double stuck_s = static_cast<double>(now - std::min(now, last_progress_ns_)) * 1e-9;
  if (stuck_s > timeout_s) {
    give_up(
        fmt::format("nothing completed for {:.1f} s with {} messages outstanding on {}; does the peer's engine get a "
                    "core? Wait longer with --peer-timeout",
                    stuck_s, sender_->outstanding(), endpoint_.info().name));
  }
}

bool TestSide::read_channel() {
  bool heard = false;
  while (phase_ != Phase::finished) {
    auto message = channel_.receive();
    if (!message) {
      reported_by_peer_ = false;
      give_up(message.error().text);
      return true;
    }
    if (!*message) break;
    heard = true;
    handle(**message);
  }
  return heard;
}

}  // namespace uroce::perf
