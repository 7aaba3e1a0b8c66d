// Reading attributes below /sys; ibv_devinfo and librdmacm do that through libibverbs.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/no_cancel.h"

extern "C" {

const char* ibv_get_sysfs_path() {
  static const std::string kPath = [] {
    // As in libibverbs, set-user-ID programs ignore the variable.
    const char* set = getuid() == geteuid() ? std::getenv("SYSFS_PATH") : nullptr;
    std::string text = set != nullptr ? set : "/sys";
    while (!text.empty() && text.back() == '/') text.pop_back();
    return text;
  }();
  return kPath.c_str();
}

/// The length without the final newline, or -1. On success `buffer` is null-terminated.
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, std::size_t size) {
  const std::string path = std::string(directory) + "/" + file;
  const uroce::NoCancel guard;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t length = read(fd, buffer, size);
  close(fd);
  if (length <= 0) return static_cast<int>(length);
  if (buffer[length - 1] == '\n') {
    --length;
  } else if (static_cast<std::size_t>(length) == size) {
    return -1;
  }
  buffer[length] = '\0';
  return static_cast<int>(length);
}

}  // extern "C"
