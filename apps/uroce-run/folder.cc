#include "folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace uroce::run {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "uroce-run.";
/// Stands in the folder once it is locked. A folder without it is about to be.
constexpr const char* kLocked = "locked";

/// A descriptor of the folder if it is this user's and no link, else -1. Anyone may create names in /tmp.
int open_own(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status{};
  if (fd < 0 || (fstat(fd, &status) == 0 && status.st_uid == geteuid())) return fd;
  close(fd);
  return -1;
}

}  // namespace

RunFolder::RunFolder() {
  std::string name = (temporary_folder() / kPrefix).string() + "XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot make folder " + name + ": " + std::strerror(errno) +
                             "; set TMPDIR to a short path that this user can write to");
  }
  path_ = fs::canonical(name);
  lock_ = open_own(path_);
  if (lock_ < 0 || flock(lock_, LOCK_EX) != 0) {
    throw std::runtime_error("cannot lock " + name + ": " + std::strerror(errno));
  }
  close(openat(lock_, kLocked, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

fs::path temporary_folder() {
  constexpr std::string_view kLongest = "/uroce-run.XXXXXX/uroced.sock";
  std::error_code failed;
  const fs::path chosen = fs::canonical(fs::temp_directory_path(failed), failed);
  if (failed) throw std::runtime_error("TMPDIR is no folder: " + failed.message() + "; set it to one, or unset it");
  return chosen.string().size() + kLongest.size() < sizeof(sockaddr_un::sun_path) ? chosen : "/tmp";
}

void make_own(const fs::path& folder) {
  const bool made = mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
  const int fd = made ? open_own(folder) : -1;
  struct stat status{};
  const bool own = fd >= 0 && fstat(fd, &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (fd >= 0) close(fd);
  if (!own) {
    throw std::runtime_error(folder.string() +
                             " is not a folder that this user alone can write to; remove it, or set UROCE_SOCKET");
  }
}

void remove_abandoned() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(temporary_folder(), ignored)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const int fd = open_own(entry.path());
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && faccessat(fd, kLocked, F_OK, 0) == 0) {
      fs::remove_all(entry.path(), ignored);
    }
    close(fd);
  }
}

}  // namespace uroce::run
