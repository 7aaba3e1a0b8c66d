#include "client/liveness.h"

#include <poll.h>

#include "base/no_cancel.h"

namespace uroce::client {

bool Liveness::lost() {
  if (known_lost()) return true;
  const NoCancel guard;
  pollfd waiting{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  if (poll(&waiting, 1, 0) == 1) mark_lost();
  return known_lost();
}

}  // namespace uroce::client
