// Descriptors of the files behind shared mappings.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "sharing/mappings.h"

namespace uroce::sharing {

/// A descriptor, closed with the last copy of this.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd);
  int get() const { return fd_ != nullptr ? *fd_ : -1; }

 private:
  std::shared_ptr<const int> fd_{};
};

/// Opens files, and remembers where the process had them open. It keeps no descriptor: a process may register memory of
/// more files than it may have descriptors, and a descriptor would keep memory that the program has given up. One
/// thread.
class MappedFiles {
 public:
  using Key = std::pair<dev_t, ino_t>;

  /// A descriptor of the file, for reading and writing, or where that is not permitted and not `writable`, for reading.
  /// Errors: EOPNOTSUPP (the file has no name and no open descriptor, and the process lacks the privilege to open it
  /// through /proc), EMFILE.
  Result<FileDescriptor> open(const Mapping& mapping, bool writable);

  /// The process has other descriptors now.
  void forget_all();

 private:
  int open_through_descriptors(const Mapping& mapping, int flags);
  int known_descriptor(const Mapping& mapping);
  int new_descriptor(const Mapping& mapping);
  bool note(int fd, const Mapping& mapping);

  std::map<Key, int> descriptors_;  ///< of the program, where they were seen last
  int seen_below_ = 0;              ///< one past the highest descriptor that was looked at
};

}  // namespace uroce::sharing
