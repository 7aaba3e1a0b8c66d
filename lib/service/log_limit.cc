#include "service/log_limit.h"

#include <algorithm>

namespace uroce::service {

namespace {

/// Stands for the users beyond kUsers: no user has this uid (chown(2)).
constexpr uint32_t kOthers = UINT32_MAX;

}  // namespace

void LogLimit::Bucket::fill(Time now) {
  const auto earned = (now - filled_) / refill_;
  if (earned <= 0) return;
  tokens_ = static_cast<uint32_t>(std::min<int64_t>(burst_, tokens_ + std::min<int64_t>(earned, burst_)));
  filled_ = full() ? now : filled_ + earned * refill_;
}

LogLimit::User& LogLimit::user(uint32_t uid, Time now) {
  if (const auto found = users_.find(uid); found != users_.end()) return found->second;
  if (users_.size() >= kUsers) {
    for (auto& [other, one] : users_) one.bucket.fill(now);
    std::erase_if(users_, [](const auto& entry) { return entry.second.bucket.full() && entry.second.left_out == 0; });
  }
  return users_[users_.size() < kUsers ? uid : kOthers];
}

bool LogLimit::admit(uint32_t uid, Time now) {
  User& one = user(uid, now);
  one.bucket.fill(now);
  all_.fill(now);
  if (one.bucket.empty() || all_.empty()) {
    if (one.left_out++ == 0) one.since = now;
    return false;
  }
  one.bucket.take();
  all_.take();
  return true;
}

std::vector<LogLimit::Summary> LogLimit::due(Time now) {
  std::vector<Summary> out;
  for (auto& [uid, one] : users_) {
    if (one.left_out == 0 || now - one.since < kSummaryAge) continue;
    out.push_back({uid, one.left_out});
    one.left_out = 0;
  }
  return out;
}

}  // namespace uroce::service
