#include "message/belongings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/un.h>

namespace uroce::message {
namespace {

int option_of(int fd, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

}  // namespace

void Belongings::lend(std::string name, int fd) {
  if (fd < 0) return;
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    error_ = errno;
  } else {
    add(std::move(name), std::move(copy));
  }
}

Result<void> Belongings::complete() const {
  if (error_ == 0) return {};
  return fail(error_, std::string("cannot copy a descriptor for the successor: ") + std::strerror(error_) +
                          "; raise the limit (LimitNOFILE)");
}

Fd Belongings::take(std::string_view name) {
  const auto found = std::ranges::find(list_, name, &std::pair<std::string, Fd>::first);
  if (found == list_.end()) return {};
  Fd out = std::move(found->second);
  list_.erase(found);
  return out;
}

bool is_socket(int fd, int domain, int type) {
  return option_of(fd, SO_DOMAIN) == domain && option_of(fd, SO_TYPE) == type;
}

bool is_bound_to(int fd, const sockaddr* address, socklen_t length) {
  sockaddr_un name{};
  socklen_t got = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &got) != 0) return false;
  if (got < length || std::memcmp(&name, address, length) != 0) return false;
  // A path ends with a zero byte, which bind(2) need not have got.
  return got == length || (got == length + 1 && reinterpret_cast<const char*>(&name)[length] == '\0');
}

}  // namespace uroce::message
