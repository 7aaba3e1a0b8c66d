#include "sharing/mapped_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/no_cancel.h"

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

// Look before opening: another file of the same name may be a device or a pipe.
int open_through_path(const Mapping& mapping, int flags) {
  struct stat status{};
  if (mapping.path.empty() || mapping.path[0] != '/') return -1;
  if (::stat(mapping.path.c_str(), &status) != 0 || !is_the_file(status, mapping)) return -1;
  return open_if_the_file(mapping.path.c_str(), flags | O_NONBLOCK | O_NOCTTY, mapping);
}

// The file's mode may forbid a new open; then duplicates `fd`.
int open_again(int fd, int flags, const Mapping& mapping) {
  const int again = open_if_the_file(fmt::format("/proc/self/fd/{}", fd).c_str(), flags, mapping);
  if (again >= 0) return again;
  const int mode = ::fcntl(fd, F_GETFL) & O_ACCMODE;
  const bool serves = mode == O_RDWR || (mode == O_RDONLY && (flags & O_ACCMODE) == O_RDONLY);
  return serves ? ::fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

}  // namespace

FileDescriptor::FileDescriptor(int fd)
    : fd_(new int(fd), [](const int* open) {
        const NoCancel guard;
        ::close(*open);
        delete open;
      }) {}

// An application that mapped a memfd often keeps its descriptor open.
int MappedFiles::open_through_descriptors(const Mapping& mapping, int flags) {
  const auto try_again = [&](int fd) { return fd >= 0 ? open_again(fd, flags, mapping) : -1; };
  int again = try_again(known_descriptor(mapping));
  if (again < 0) again = try_again(new_descriptor(mapping));
  if (again >= 0) return again;
  // The first descriptor of the file may not serve: any that does.
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) return -1;
  descriptors_.clear();
  while (const dirent* entry = ::readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == ::dirfd(folder.get()) || !note(fd, mapping)) continue;
    again = again >= 0 ? again : open_again(fd, flags, mapping);
  }
  return again;
}

/// Remembers `fd`. Whether it is of the mapping's file.
bool MappedFiles::note(int fd, const Mapping& mapping) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return false;
  seen_below_ = std::max(seen_below_, fd + 1);
  if (S_ISREG(status.st_mode)) descriptors_[{status.st_dev, status.st_ino}] = fd;
  return is_the_file(status, mapping);
}

int MappedFiles::known_descriptor(const Mapping& mapping) {
  const auto known = descriptors_.find({mapping.device, mapping.inode});
  if (known == descriptors_.end()) return -1;
  const int fd = known->second;
  struct stat status{};
  if (::fstat(fd, &status) == 0 && is_the_file(status, mapping)) return fd;
  descriptors_.erase(known);
  return -1;
}

// A program that opens, maps and registers one file after the other has the next one above all that were seen.
int MappedFiles::new_descriptor(const Mapping& mapping) {
  constexpr int kGap = 16;
  for (int fd = seen_below_; fd < seen_below_ + kGap; ++fd) {
    if (note(fd, mapping)) return fd;
  }
  return -1;
}

Result<FileDescriptor> MappedFiles::open(const Mapping& mapping, bool writable) {
  bool none_left = false;
  const auto open_with = [&](int flags) {
    int fd = open_through_map_files(mapping, flags);
    none_left = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd < 0) fd = open_through_path(mapping, flags);
    if (fd < 0) fd = open_through_descriptors(mapping, flags);
    return fd;
  };
  // The daemon can guard memory only where the descriptor may write (lib/service/README.md).
  int fd = open_with(O_RDWR | O_CLOEXEC);
  if (fd < 0 && !writable) fd = open_with(O_RDONLY | O_CLOEXEC);
  if (fd < 0 && none_left) {
    return fail(EMFILE,
                fmt::format("cannot open a descriptor of {}: this process has as many as it may; close some, or "
                            "raise the limit (ulimit -n)",
                            mapping.name()));
  }
  if (fd < 0) {
    return fail(EOPNOTSUPP, fmt::format("cannot open a descriptor of {}: it is shared memory without a name or an open "
                                        "descriptor; use memfd_create(2) or shm_open(3), keep the descriptor open, or "
                                        "give the process CAP_CHECKPOINT_RESTORE",
                                        mapping.name()));
  }
  FileDescriptor opened(fd);
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {  // a device's mmap need not map by offset
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  }
  return opened;
}

void MappedFiles::forget_all() {
  descriptors_.clear();
  seen_below_ = 0;
}

}  // namespace uroce::sharing
