#include "uroced/estate_desk.h"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "uroced/notification.h"
#include "uroced/supervised_run.h"

namespace uroce::daemon {

EstateDesk::EstateDesk(NotifySocket socket)
    : socket_(std::move(socket)), estate_(outer_.take_kept()), user_(geteuid()) {
  if (estate_) outer_.forget();
}

void EstateDesk::listen(pid_t daemon) {
  while (auto message = socket_.receive()) {
    if (!is_from(daemon, *message)) continue;
    const Notification said = read_notification(message->text, bool(estate_));
    if (said.forget) estate_.reset();
    if (said.keep && !message->fds.empty()) estate_ = std::move(message->fds.front());
    if (!said.forwarded.empty()) sd_notify(0, said.forwarded.c_str());
  }
}

// The daemon says what its user is now. Its children become the supervisor's when it dies. A container's first process
// adopts strangers, too, so the user counts.
bool EstateDesk::is_from(pid_t daemon, const NotifySocket::Message& message) {
  if (message.process <= 0) return false;
  if (message.process == daemon) {
    user_ = message.user;
    return true;
  }
  if (message.user != 0 && message.user != user_) return false;
  const pid_t parent = parent_of(message.process);
  return parent == getpid() || (daemon > 0 && parent == daemon);
}

}  // namespace uroce::daemon
