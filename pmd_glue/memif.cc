#include "pmd_glue/memif.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <vector>

#include "pmd_glue/eal_args.h"

namespace uroce::glue {

namespace {

/// The name of a bound Unix socket, in the file system or abstract; empty for other descriptors.
std::string listening_on(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) return {};
  sockaddr_un name{};
  size = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0 || name.sun_family != AF_UNIX) return {};
  if (size <= offsetof(sockaddr_un, sun_path)) return {};
  const std::string_view path(name.sun_path, size - offsetof(sockaddr_un, sun_path));
  const std::string_view text = path.front() == '\0' ? path.substr(1) : path;
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace

bool is_memif_client(std::string_view devargs) {
  const std::string_view role = device_argument(devargs, "role");
  return role.find("server") == std::string_view::npos && role.find("master") == std::string_view::npos;
}

std::string memif_socket(std::string_view devargs) {
  const std::string_view socket = device_argument(devargs, "socket");
  return std::string(socket.empty() ? "/run/memif.sock" : socket);
}

void silence_memif_listener(std::string_view devargs) {
  if (is_memif_client(devargs)) return;
  const std::string name = memif_socket(devargs);
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string text = entry.path().filename();
    int fd = -1;
    std::from_chars(text.data(), text.data() + text.size(), fd);
    if (fd >= 0 && listening_on(fd) == name) found.push_back(fd);
  }
  // Keep the number in use: EAL panics when a descriptor that it waits for is closed.
  for (const int fd : found) {
    const int placeholder = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dup3(placeholder, fd, O_CLOEXEC);
    close(placeholder);
  }
}

}  // namespace uroce::glue
