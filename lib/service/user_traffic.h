// The packets of a user's connections: those that are open, and those that have ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "control/device_session.h"
#include "message/operator_messages.h"

namespace uroce::service {

inline message::Traffic to_message(const transport::Traffic& traffic) {
  return {.rx_packets = traffic.rx_packets,
          .rx_bytes = traffic.rx_bytes,
          .tx_packets = traffic.tx_packets,
          .tx_bytes = traffic.tx_bytes};
}

/// Any thread. The sum never falls, because a session ends and joins the ended ones in one step.
class UserTraffic {
 public:
  /// A session that counts. It outlives this, and so does the user's traffic.
  class Part {
   public:
    Part(UserTraffic& user, const control::DeviceSession& session) : user_(user), session_(session) {
      user_.begin(session_);
    }
    ~Part() { user_.end(session_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    UserTraffic& user_;
    const control::DeviceSession& session_;
  };

  transport::Traffic sum() const {
    const std::scoped_lock lock(mutex_);
    transport::Traffic sum = ended_;
    for (const control::DeviceSession* session : open_) sum += session->traffic();
    return sum;
  }

 private:
  void begin(const control::DeviceSession& session) {
    const std::scoped_lock lock(mutex_);
    open_.push_back(&session);
  }
  void end(const control::DeviceSession& session) {
    const std::scoped_lock lock(mutex_);
    if (std::erase(open_, &session) != 0) ended_ += session.traffic();
  }

  mutable std::mutex mutex_;
  std::vector<const control::DeviceSession*> open_;
  transport::Traffic ended_{};
};

/// A user's counters. Users keeps them when the user's last connection has ended, so that they never fall.
struct UserTotals {
  UserTraffic traffic{};
  std::atomic<uint64_t> refusals{0};
};

}  // namespace uroce::service
