#include "service/wait_account.h"

#include <algorithm>

namespace uroce::service {

WaitAccount::Verdict WaitAccount::note(uint32_t uid, Nanos waited, Time now, std::chrono::seconds penalty) {
  std::erase_if(users_, [now](const auto& entry) {
    return entry.second.counted_until <= now && entry.second.refused_until <= now;
  });
  if (waited <= Nanos(0) || penalty <= std::chrono::seconds(0)) return Verdict::allowed;
  Entry& user = users_[uid];
  if (user.counted_until <= now) user = {.counted_until = now + penalty, .refused_until = user.refused_until};
  user.waited += std::min<Nanos>(waited, std::chrono::hours(1));
  if (user.waited <= kAllowance) return Verdict::allowed;
  const bool again = user.refused_until > now;
  user.refused_until = user.counted_until = now + penalty;
  return again ? Verdict::cut_user : Verdict::cut_process;
}

bool WaitAccount::refused(uint32_t uid, Time now, std::chrono::seconds penalty) const {
  if (penalty <= std::chrono::seconds(0)) return false;
  const auto user = users_.find(uid);
  return user != users_.end() && user->second.refused_until > now;
}

std::string_view WaitAccount::consequence(Verdict verdict) {
  switch (verdict) {
    case Verdict::allowed: return "";
    case Verdict::cut_process:
      return "; the process is disconnected, and the user may register no such memory for a while "
             "(limits.punch_penalty)";
    case Verdict::cut_user:
      return " although it is refused such memory; all its clients that have some are disconnected";
  }
  return "";
}

}  // namespace uroce::service
