// A descriptor that is readable while frames wait in a queue's socket, and stays the same when another socket takes
// that one's place: an epoll instance (epoll(7)) whose only member is the socket.
#pragma once

#include <uroce/error.h>

namespace uroce::glue::kif {

class Readable {
 public:
  Readable();
  ~Readable();
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;

  /// Negative if the system gave none.
  int descriptor() const { return epoll_; }
  /// Watches what `fd` is now. The socket that it was before ends with its last user. Errors: the system's.
  Result<void> watch(int fd);

 private:
  int epoll_ = -1;
};

}  // namespace uroce::glue::kif
