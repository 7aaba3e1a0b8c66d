// Retry exhaustion: how often a requester tries before the connection fails (IBTA vol. 1, 9.7.5.2.8 and 9.7.6.1.3).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

/// The duration of a QP's attribute `timeout` (IBTA vol. 1, 9.7.6.1.3): 4.096 us * 2^code. Code 0 never times
/// out.
constexpr Nanos ack_timeout(uint8_t code) { return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 0x1f)); }
static_assert(ack_timeout(14) == Nanos(67'108'864));

/// The retries that are left for timeouts and sequence errors, and those for RNR NAKs. Progress refills both.
class RetryBudget {
 public:
  /// rnr_retry 7 means without end; retry_cnt 7 is finite.
  static constexpr uint8_t kRnrForever = 7;

  void refill(uint8_t retry_cnt, uint8_t rnr_retry) {
    left_ = retry_cnt;
    rnr_left_ = rnr_retry;
  }
  /// False: no retry is left.
  bool spend() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  /// Spends an RNR retry. An RNR NAK shows that the peer is alive, so the retries for timeouts are refilled. False: no
  /// RNR retry is left.
  bool spend_rnr(uint8_t retry_cnt, uint8_t rnr_retry) {
    if (rnr_retry != kRnrForever) {
      if (rnr_left_ == 0) return false;
      --rnr_left_;
    }
    left_ = retry_cnt;
    return true;
  }

  /// Retries for timeouts and sequence errors.
  uint8_t left() const { return left_; }
  uint8_t rnr_left() const { return rnr_left_; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [left, rnr_left] = *this;
    archive("left", left);
    archive("rnr_left", rnr_left);
  }

 private:
  uint8_t left_ = 0;
  uint8_t rnr_left_ = 0;
};

/// Selective retransmission has short timers. The connection fails only when it would with Go-Back-N: after more than
/// retry_cnt timers without progress, and after retry_cnt + 1 whole timeouts. `timeout` 0 never fails.
constexpr bool silence_exhausts_retries(uint32_t silent_timers, Nanos silence, uint8_t timeout, uint8_t retry_cnt) {
  return timeout != 0 && silent_timers > retry_cnt && silence >= ack_timeout(timeout) * (retry_cnt + 1);
}

}  // namespace uroce::transport
