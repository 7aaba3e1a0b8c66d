// How long a selective sender waits for its peer, and what follows a wait without progress.
//
// The first wait takes about two round trips. A tail-loss probe follows: the most informative packet is sent again, so
// that the peer acknowledges it. Each later wait takes twice as long, and the oldest packet is sent again.
//
// A peer may be late without a loss. An idle engine naps; a busy machine takes its processor away. So the first wait
// after a pause is longer. Answers that were late make it longer still, for a while. In a flow of packets the
// round-trip time tells enough, unless the engine's settings say that peers share their processors.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"
#include "transport/loss/rtt.h"

namespace uroce::transport {

/// The actions that follow a wait without progress.
struct SilenceVerdict {
  bool give_up = false;           ///< the retries are exhausted; nothing else counts then
  bool probe = false;             ///< send a tail-loss probe; false: send the oldest packet
  bool report_timeout = false;    ///< tell congestion control, once per silence
  bool assume_forgotten = false;  ///< the peer may have emptied its reorder buffer: send everything again
};

class ProbeTimer {
 public:
  static constexpr Nanos kSecondLook{200'000};

  /// Progress at `now`.
  void on_progress(Nanos now) {
    silent_timers_ = 0;
    progress_at_ = now;
    lateness_ = Nanos(0);
    excused_ = false;
    if (++progresses_ % kForgetPatience == 0) [[unlikely]]
      patience_ -= patience_ / 4;
  }
  /// The first packet after a pause is out: silence counts from now.
  void on_first_sent(Nanos now);
  /// Whether a wait that ended `late` does not count. This engine did not run meanwhile, and the peer's answer may wait
  /// in its port's queue: look again after kSecondLook. Once in a silence.
  bool excuses(Nanos late) { return late > kAway && !std::exchange(excused_, true); }
  /// A packet was sent again after a wait, and then its first copy was acknowledged. `rtt`: of this queue pair.
  void on_late(const RttEstimator& rtt);
  /// The length of the present wait. `timeout`: the QP attribute, an upper bound. `peer_delay`: EngineConfig's.
  Nanos wait(const RttEstimator& rtt, uint8_t timeout, Nanos peer_delay = Nanos(0)) const;
  /// The wait has ended without progress. `timeout` and `retry_cnt`: QP attributes.
  SilenceVerdict on_expiry(Nanos now, uint8_t timeout, uint8_t retry_cnt);

  template <class Archive>
  void persist(Archive& archive) {
    auto& [silent_timers, progress_at, lateness, patience, progresses, excused] = *this;
    archive("silent_timers", silent_timers);
    archive.moment("progress_at", progress_at);
    archive("lateness", lateness, Nanos(0), kLongestNap + kMostPatience);
    archive("patience", patience, Nanos(0), kMostPatience);
    archive("progresses", progresses);
    archive("excused", excused);
  }

 private:
  static constexpr Nanos kAway{100'000};
  /// pmd_glue's workers nap for an eighth of the time since their last work, and no longer than this.
  static constexpr Nanos kLongestNap{4'000'000};
  static constexpr int kNapShare = 8;
  /// A thread that polls on the same processor keeps an engine away for some milliseconds.
  static constexpr Nanos kMostPatience{8'000'000};
  static constexpr uint32_t kForgetPatience = 1024;  ///< after this much progress, a quarter of it is forgotten

  uint32_t silent_timers_ = 0;  ///< in a row, without progress
  Nanos progress_at_{};
  Nanos lateness_{};  ///< of the peer, that the present wait allows for; 0 from the first progress on
  Nanos patience_{};  ///< what late answers have taught
  uint32_t progresses_ = 0;
  bool excused_ = false;
};

}  // namespace uroce::transport
