#include "pmd_glue/runtime_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "pmd_glue/eal_args.h"

namespace uroce::glue {

namespace {

namespace fs = std::filesystem;

/// Between making its folder and locking a file there EAL takes microseconds; where it locks none, and listens on a
/// socket, it takes as long as its start does.
constexpr auto kStartWithFiles = std::chrono::minutes(1);
constexpr auto kStartWithout = std::chrono::hours(1);

/// EAL's primary process has a POSIX lock on its `config`, and every process has shared ones (flock) on its other
/// files. `by_others`: those of this process, which it sees as such with flock alone, do not count.
bool is_locked(const fs::path& file, bool by_others) {
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno != ENOENT;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  const bool posix = fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
  const bool shared = !by_others && flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return posix || shared;
}

/// A datagram socket cannot connect to a stream, but the error differs from that of a socket that nobody has.
bool has_listener(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path) return true;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const bool nobody = !connected && (errno == ECONNREFUSED || errno == ENOENT);
  close(fd);
  return !nobody;
}

bool is_settled(const fs::path& folder, fs::file_time_type now) {
  std::error_code error;
  const fs::file_time_type changed = fs::last_write_time(folder, error);
  if (error) return false;
  const bool empty = fs::is_empty(folder, error);
  return !error && now - changed >= (empty ? fs::file_time_type::duration(kStartWithout) : kStartWithFiles);
}

}  // namespace

bool is_own_runtime_folder(const fs::path& folder) { return folder.filename().native().starts_with(kOwnPrefix); }

bool is_runtime_folder_in_use(const fs::path& folder, bool by_others) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const fs::file_status status = at->symlink_status(unknown);
    if (fs::is_regular_file(status) ? is_locked(at->path(), by_others)
                                    : !fs::is_socket(status) || has_listener(at->path()))
      return true;
  }
  return static_cast<bool>(error);
}

// As EAL chooses it (eal_create_runtime_dir).
Result<void> check_room_of_runtime_folder() {
  constexpr uint64_t kNeeded = 1 << 20;  // EAL touches some 300 KiB
  const char* const said = std::getenv("RUNTIME_DIRECTORY");
  const char* const own = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = said != nullptr ? said : getuid() == 0 ? "/var/run" : own != nullptr ? own : "/tmp";
  struct statvfs system{};
  if (statvfs(folder.c_str(), &system) != 0) return {};  // EAL says why
  const uint64_t left = uint64_t{system.f_bavail} * system.f_frsize;
  if (left >= kNeeded) return {};
  return fail(ENOSPC, fmt::format("{} has {} bytes left, and EAL needs {} there; free some, or give EAL --in-memory",
                                  folder, left, kNeeded));
}

void remove_empty_runtime_folder(const fs::path& folder) {
  if (is_own_runtime_folder(folder)) rmdir(folder.c_str());  // leaves one that is not empty
}

void remove_runtime_folder(const fs::path& folder, bool only_user) {
  if (!is_own_runtime_folder(folder)) return;
  // A process of another PID namespace may have the same id, and thus prefix.
  if (only_user ? is_locked(folder / "config", true) : is_runtime_folder_in_use(folder, true)) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void remove_stale_runtime_folders(const fs::path& own, fs::file_time_type now) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(own.parent_path(), error)) {
    // A process does not see its own lock, and closing the file would drop it.
    if (entry.path() == own || !is_own_runtime_folder(entry.path())) continue;
    std::error_code ignored;
    if (entry.is_symlink(ignored) || !entry.is_directory(ignored) || !is_settled(entry.path(), now)) continue;
    if (!is_runtime_folder_in_use(entry.path(), false)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace uroce::glue
