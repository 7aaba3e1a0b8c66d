// How many queue pairs of a device listen to each multicast group.
#pragma once

#include <cstdint>
#include <map>

#include <uroce/types.h>

namespace uroce::control {

/// Callers hold the control lock.
class MulticastUsers {
 public:
  /// True for the first: the port must receive the group from now on.
  bool add(const Gid& group) { return users_[group]++ == 0; }
  /// True for the last: the port stops receiving the group.
  bool remove(const Gid& group) {
    const auto users = users_.find(group);
    if (users == users_.end() || --users->second != 0) return false;
    users_.erase(users);
    return true;
  }

 private:
  std::map<Gid, uint32_t> users_;
};

}  // namespace uroce::control
