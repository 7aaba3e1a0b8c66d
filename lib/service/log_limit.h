// Bounds the lines that clients can cause in the daemon's log: a token bucket for each user, and one for all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

namespace uroce::service {

/// Not for several threads at once.
class LogLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr uint32_t kBurst = 20;                           ///< lines of one user in a row
  static constexpr std::chrono::milliseconds kRefill{1000};        ///< for one line more
  static constexpr uint32_t kBurstOfAll = 100;                     ///< the same for all users together
  static constexpr std::chrono::milliseconds kRefillOfAll{100};    ///< the same
  static constexpr std::size_t kUsers = 256;                       ///< users told apart; others share a bucket
  static constexpr std::chrono::milliseconds kSummaryAge{10'000};  ///< from the first line left out to its summary

  /// Whether a line that user `uid` causes is written now. One that is not is counted.
  bool admit(uint32_t uid, Time now);

  struct Summary {
    uint32_t uid = 0;
    uint64_t lines = 0;  ///< left out since the last summary
  };
  /// Summaries that are due. Each line left out is told once.
  std::vector<Summary> due(Time now);

 private:
  class Bucket {
   public:
    Bucket(uint32_t burst, std::chrono::milliseconds refill) : burst_(burst), refill_(refill), tokens_(burst) {}
    void fill(Time now);
    bool empty() const { return tokens_ == 0; }
    bool full() const { return tokens_ == burst_; }
    void take() { --tokens_; }

   private:
    uint32_t burst_;
    std::chrono::milliseconds refill_;
    uint32_t tokens_;
    Time filled_{};
  };
  struct User {
    Bucket bucket{kBurst, kRefill};
    uint64_t left_out = 0;
    Time since{};  ///< the first of them
  };
  User& user(uint32_t uid, Time now);

  Bucket all_{kBurstOfAll, kRefillOfAll};
  std::map<uint32_t, User> users_;
};

}  // namespace uroce::service
