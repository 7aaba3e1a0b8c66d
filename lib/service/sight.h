// The rights of a user to see clients, objects, keys and PSNs.
#pragma once

#include <cstdint>

#include <unistd.h>

namespace uroce::service {

/// The rights of one user, by the uid of its socket, which the kernel translates into the daemon's user namespace: root
/// of another namespace is not 0 here.
class Sight {
 public:
  explicit Sight(uint32_t uid, uint32_t daemon_uid = geteuid())
      : uid_(uid), everything_(uid == 0 || uid == daemon_uid) {}

  /// Root and the daemon's own user: all clients, keys, PSNs, and the frames of captures.
  bool everything() const { return everything_; }
  /// A client of user `owner`, and its objects. A key or a PSN is enough to forge a frame that writes memory or ends a
  /// connection, so users do not even see those of their own objects.
  bool client_of(uint32_t owner) const { return everything_ || owner == uid_; }

 private:
  uint32_t uid_;
  bool everything_;
};

}  // namespace uroce::service
