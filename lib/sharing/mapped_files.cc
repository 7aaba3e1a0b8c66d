#include "sharing/mapped_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uroce::sharing {
namespace {

bool is_the_file(const struct stat& status, const Mapping& mapping) {
  return status.st_dev == mapping.device && status.st_ino == mapping.inode;
}

int open_if_the_file(const char* path, int flags, const Mapping& mapping) {
  const int fd = ::open(path, flags);
  struct stat status{};
  if (fd >= 0 && ::fstat(fd, &status) == 0 && is_the_file(status, mapping)) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// Works for every file, with or without a name, but needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN
// (proc_pid_map_files(5)).
int open_through_map_files(const Mapping& mapping, int flags) {
  return ::open(fmt::format("/proc/self/map_files/{:x}-{:x}", mapping.first, mapping.end).c_str(), flags);
}

// An application that mapped a memfd often keeps its descriptor open.
int open_through_descriptors(const Mapping& mapping, int flags) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) return -1;
  while (const dirent* entry = ::readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    struct stat status{};
    if (entry->d_name[0] == '.' || fd == ::dirfd(folder.get()) || ::fstat(fd, &status) != 0) continue;
    if (!is_the_file(status, mapping)) continue;
    const int again = open_if_the_file(fmt::format("/proc/self/fd/{}", fd).c_str(), flags, mapping);
    if (again >= 0) return again;
    const int mode = ::fcntl(fd, F_GETFL) & O_ACCMODE;  // the file's mode may forbid a new open; duplicate this one
    if (mode == O_RDWR || (mode == O_RDONLY && (flags & O_ACCMODE) == O_RDONLY)) {
      if (const int same = ::fcntl(fd, F_DUPFD_CLOEXEC, 0); same >= 0) return same;
    }
  }
  return -1;
}

int open_any_way(const Mapping& mapping, int flags) {
  int fd = open_through_map_files(mapping, flags);
  if (fd < 0) fd = open_through_descriptors(mapping, flags);
  if (fd < 0 && !mapping.path.empty() && mapping.path[0] == '/') {
    fd = open_if_the_file(mapping.path.c_str(), flags | O_NONBLOCK | O_NOCTTY, mapping);
  }
  return fd;
}

}  // namespace

Result<int> MappedFiles::open(const Mapping& mapping, bool writable) {
  Open& file = files_[{mapping.device, mapping.inode}];
  if (file.read_write >= 0) return file.read_write;
  if (!writable && file.read_only >= 0) return file.read_only;
  const int fd = open_any_way(mapping, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) {
    return fail(EOPNOTSUPP, fmt::format("cannot open a descriptor of {}: it is shared memory without a name or an open "
                                        "descriptor; use memfd_create(2) or shm_open(3), keep the descriptor open, or "
                                        "give the process CAP_CHECKPOINT_RESTORE",
                                        mapping.name()));
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {  // a device's mmap need not map by offset
    ::close(fd);
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  }
  (writable ? file.read_write : file.read_only) = fd;
  return fd;
}

void MappedFiles::keep_only(const std::vector<Mapping>& mappings) {
  std::set<Key> mapped;
  for (const Mapping& mapping : mappings) mapped.insert({mapping.device, mapping.inode});
  for (auto file = files_.begin(); file != files_.end();) {
    if (mapped.contains(file->first)) {
      ++file;
      continue;
    }
    if (file->second.read_only >= 0) ::close(file->second.read_only);
    if (file->second.read_write >= 0) ::close(file->second.read_write);
    file = files_.erase(file);
  }
}

void MappedFiles::close_all() { keep_only({}); }

}  // namespace uroce::sharing
