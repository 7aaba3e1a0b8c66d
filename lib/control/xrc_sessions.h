// The sessions of XRC targets. A target outlives the program that has made it, whose session must be able to go. So the
// targets of a user have a session of their own, which engines serve as one of the user's clients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <uroce/error.h>

namespace uroce::control {

class DeviceSession;

/// Any thread.
class XrcSessions {
 public:
  /// The session of `user` (transport::Owner), which `open` opens if there is none now.
  template <class Open>
  Result<std::shared_ptr<DeviceSession>> of(uint32_t user, Open&& open) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = by_user_.find(user); found != by_user_.end()) {
      if (auto session = found->second.lock()) return session;
    }
    std::erase_if(by_user_, [](const auto& entry) { return entry.second.expired(); });
    Result<std::shared_ptr<DeviceSession>> opened = std::forward<Open>(open)();
    if (opened) by_user_[user] = *opened;
    return opened;
  }

 private:
  std::mutex mutex_;
  std::map<uint32_t, std::weak_ptr<DeviceSession>> by_user_;
};

}  // namespace uroce::control
