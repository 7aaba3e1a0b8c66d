#include "service/peer_process.h"

#include <array>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

// Headers of Linux before 6.5 lack it.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace uroce::service {
namespace {

/// No file that is read here is longer, unless somebody means harm.
constexpr std::size_t kMostRead = 1 << 20;

/// The kernel allows no deeper user namespace (user_namespaces(7)).
constexpr int kMostLevels = 32;

/// A descriptor of the process. Errors: ENOSYS where the kernel has none (before 5.3).
Result<message::Fd> pidfd_of(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return message::Fd(fd);
  if (errno == ENOPROTOOPT) fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return fail(errno, "no descriptor of the process");
  return message::Fd(fd);
}

/// A descriptor of a process becomes readable when it ends.
bool has_ended(const message::Fd& pidfd) {
  pollfd one{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) != 0;
}

message::Fd open_folder(const std::string& path) {
  return message::Fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

// The process has its number until it has ended. So the folder is its own if it lives when the folder is open.
std::optional<PeerProcess> PeerProcess::of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 || credentials.pid == 0) {
    return std::nullopt;
  }
  const auto pidfd = pidfd_of(socket, credentials.pid);
  if (!pidfd && pidfd.error().code != ENOSYS) return std::nullopt;
  message::Fd folder = open_folder(fmt::format("/proc/{}", credentials.pid));
  if (!folder || (pidfd && has_ended(*pidfd))) return std::nullopt;
  return PeerProcess(std::move(folder));
}

PeerProcess PeerProcess::self() { return PeerProcess(open_folder("/proc/self")); }

std::string PeerProcess::read(const char* file) const {
  const message::Fd fd(openat(folder_.get(), file, O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part;
  while (fd && text.size() < kMostRead) {
    const ssize_t got = ::read(fd.get(), part.data(), part.size());
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string PeerProcess::user_namespace() const {
  std::array<char, 64> name;
  const ssize_t length = readlinkat(folder_.get(), "ns/user", name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : std::string();
}

// A daemon that gave its own privileges up may not read another user's link. Then the ranges of uids tell, which
// everybody may read (user_namespaces(7)).
bool PeerProcess::is_in_own_user_namespace(std::string_view name) const {
  const std::string theirs = user_namespace();
  if (!theirs.empty()) return theirs == name;
  const std::string map = read("uid_map");
  return !map.empty() && map == self().read("uid_map");
}

std::optional<uint32_t> PeerProcess::namespace_owner() const {
  struct stat own{};
  message::Fd space(openat(folder_.get(), "ns/user", O_RDONLY | O_CLOEXEC));
  if (!space || stat("/proc/self/ns/user", &own) != 0) return std::nullopt;
  const auto is_own = [&](const message::Fd& fd) {
    struct stat about{};
    return fstat(fd.get(), &about) == 0 && about.st_ino == own.st_ino && about.st_dev == own.st_dev;
  };
  if (is_own(space)) return std::nullopt;
  for (int level = 0; level < kMostLevels; ++level) {
    message::Fd around(ioctl(space.get(), NS_GET_PARENT));
    if (!around) return std::nullopt;
    if (is_own(around)) {
      uid_t owner = 0;
      if (ioctl(space.get(), NS_GET_OWNER_UID, &owner) != 0 || owner == 0) return std::nullopt;
      return owner;
    }
    space = std::move(around);
  }
  return std::nullopt;
}

bool PeerProcess::has_capability(int capability) const {
  constexpr std::string_view kKey = "\nCapEff:\t";
  const std::string status = read("status");
  const std::size_t at = status.find(kKey);
  if (at == std::string::npos) return false;
  uint64_t bits = 0;
  std::from_chars(status.data() + at + kKey.size(), status.data() + status.size(), bits, 16);
  return (bits >> capability & 1) != 0;
}

bool PeerProcess::runs_as(uint32_t uid) const {
  struct stat file{};
  return fstatat(folder_.get(), "status", &file, 0) == 0 && file.st_uid == uid;
}

}  // namespace uroce::service
