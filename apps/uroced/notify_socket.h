// The socket of a supervisor, to which its service sends by sd_notify(3).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::daemon {

class NotifySocket {
 public:
  /// Errors: those of socket(2) and bind(2).
  static Result<NotifySocket> open();

  /// The value of NOTIFY_SOCKET. A process of any user in this network namespace reaches an abstract name, without a
  /// right on a folder, so the receiver must look at the sender.
  const std::string& name() const { return name_; }
  int fd() const { return socket_.get(); }

  struct Message {
    pid_t process = 0;  ///< the sender's, by the kernel; 0: of another PID namespace
    uid_t user = 0;
    std::string text;
    std::vector<message::Fd> fds;
  };
  /// The next message that is whole; nullopt where none is there.
  std::optional<Message> receive();

 private:
  NotifySocket(message::Fd socket, std::string name) : socket_(std::move(socket)), name_(std::move(name)) {}

  message::Fd socket_;
  std::string name_;
};

}  // namespace uroce::daemon
