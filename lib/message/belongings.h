// Descriptors with names, which a daemon passes to its successor: sockets and pipes that others know it by.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::message {

/// One thread.
class Belongings {
 public:
  /// Adds a copy of `fd`; a negative one is left out.
  void lend(std::string name, int fd);
  void add(std::string name, Fd fd) { list_.emplace_back(std::move(name), std::move(fd)); }
  /// Errors: EMFILE and the like, if a descriptor could not be copied.
  Result<void> complete() const;
  /// Nothing where none has the name. A descriptor that nobody takes is closed at the end.
  Fd take(std::string_view name);
  const std::vector<std::pair<std::string, Fd>>& list() const { return list_; }

 private:
  std::vector<std::pair<std::string, Fd>> list_;
  int error_ = 0;
};

/// Whether `fd` is a socket of this kind; `type` without flags.
bool is_socket(int fd, int domain, int type);
/// Whether the socket is bound to the name of a Unix socket, as bind(2) got it.
bool is_bound_to(int fd, const sockaddr* address, socklen_t length);

}  // namespace uroce::message
