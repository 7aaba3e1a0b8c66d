// How long a selective sender waits for a sign of its peer, and what it does when none comes.
//
// The first wait is about two round trips. When it ends, a tail-loss probe makes the peer speak: the most informative
// packet is sent again. Each later wait takes twice as long and resends the oldest packet.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/loss/rtt.h"

namespace uroce::transport {

/// What the end of a wait asks for.
struct SilenceVerdict {
  bool give_up = false;           ///< the retries are exhausted; nothing else counts then
  bool probe = false;             ///< send a tail-loss probe; otherwise the oldest packet
  bool report_timeout = false;    ///< tell congestion control, once per silence
  bool assume_forgotten = false;  ///< what the peer has acknowledged selectively may be gone: send everything again
};

class ProbeTimer {
 public:
  /// A sign of progress at `now`.
  void on_progress(Nanos now) {
    silent_timers_ = 0;
    progress_at_ = now;
  }
  /// The first packet after a pause is out: silence counts from now.
  void on_first_sent(Nanos now) { progress_at_ = now; }
  /// How long the present wait takes. `timeout`: the QP attribute, an upper bound.
  Nanos wait(const RttEstimator& rtt, uint8_t timeout) const;
  /// The wait has ended without progress. `timeout` and `retry_cnt`: QP attributes.
  SilenceVerdict on_expiry(Nanos now, uint8_t timeout, uint8_t retry_cnt);

  uint32_t silent_timers() const { return silent_timers_; }

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
