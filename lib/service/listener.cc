#include "service/listener.h"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace uroce::service {
namespace {

constexpr int kBacklog = 128;
/// How long a daemon that has the socket may take to let this one in. A stopped daemon never does.
constexpr std::chrono::milliseconds kProbe{1000};

std::unexpected<Error> path_error(const std::string& path, const char* what) {
  const int code = errno;
  return fail(code, fmt::format("{}: {}: {}; set another path or run as a user with the permission", path, what,
                                std::strerror(code)));
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

Result<message::Fd> listen_at(const message::SocketOwner& owner, mode_t mode, std::optional<gid_t> group) {
  const std::string& path = owner.socket();
  const auto other = message::Connection::to(path, kProbe);
  if (other || other.error().code == ETIMEDOUT) {
    return fail(EADDRINUSE, message::in_use(path, {.process = other ? other->peer_process() : 0}));
  }
  const sockaddr_un address = address_of(path);
  struct stat old{};
  if (lstat(path.c_str(), &old) == 0) {
    if (!S_ISSOCK(old.st_mode)) {
      return fail(EADDRINUSE, fmt::format("{} exists and is not a socket; remove it or set another path", path));
    }
    unlink(path.c_str());
  }
  message::Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return path_error(path, "socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return path_error(path, "bind");
  if (group && chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) return path_error(path, "chown");
  if (chmod(path.c_str(), mode) != 0) return path_error(path, "chmod");
  if (listen(fd.get(), kBacklog) != 0) return path_error(path, "listen");
  return fd;
}

Result<message::Fd> inherit_listener(message::Belongings& belongings, const message::SocketOwner& owner) {
  message::Fd fd = belongings.take(kListenerName);
  const sockaddr_un address = address_of(owner.socket());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + owner.socket().size());
  if (message::is_socket(fd.get(), AF_UNIX, SOCK_SEQPACKET) &&
      message::is_bound_to(fd.get(), reinterpret_cast<const sockaddr*>(&address), length)) {
    return fd;
  }
  return fail(EINVAL,
              fmt::format("{}: the running daemon passed no socket that is bound to this path", owner.socket()));
}

void own_listener(int fd) { listen(fd, kBacklog); }

}  // namespace uroce::service
