// How long a selective sender waits for its peer, and what follows a wait without progress.
//
// The first wait takes about two round trips. A tail-loss probe follows: the most informative packet is sent again, so
// that the peer acknowledges it. Each later wait takes twice as long, and the oldest packet is sent again.
#pragma once

#include <cstdint>

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
  /// Progress at `now`.
  void on_progress(Nanos now) {
    silent_timers_ = 0;
    progress_at_ = now;
  }
  /// The first packet after a pause is out: silence counts from now.
  void on_first_sent(Nanos now) { progress_at_ = now; }
  /// The length of the present wait. `timeout`: the QP attribute, an upper bound.
  Nanos wait(const RttEstimator& rtt, uint8_t timeout) const;
  /// The wait has ended without progress. `timeout` and `retry_cnt`: QP attributes.
  SilenceVerdict on_expiry(Nanos now, uint8_t timeout, uint8_t retry_cnt);

  template <class Archive>
  void persist(Archive& archive) {
    auto& [silent_timers, progress_at] = *this;
    archive("silent_timers", silent_timers);
    archive.moment("progress_at", progress_at);
  }

 private:
  uint32_t silent_timers_ = 0;  ///< in a row, without progress
  Nanos progress_at_{};
};

}  // namespace uroce::transport
