// Descriptors of files that are mapped shared.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "sharing/mappings.h"

namespace uroce::sharing {

/// Keeps descriptors for as long as their file is mapped. One thread.
class MappedFiles {
 public:
  using Key = std::pair<dev_t, ino_t>;

  MappedFiles() = default;
  MappedFiles(const MappedFiles&) = delete;
  MappedFiles& operator=(const MappedFiles&) = delete;
  ~MappedFiles() { close_all(); }

  /// A descriptor of the file, for reading or for reading and writing. Errors: EOPNOTSUPP (none can be had: it has
  /// no name, no open descriptor, and the kernel gives none to unprivileged processes), EACCES.
  Result<int> open(const Mapping& mapping, bool writable);

  /// Closes the descriptors of files that are mapped no longer.
  void keep_only(const std::vector<Mapping>& mappings);
  void close_all();

 private:
  struct Open {
    int read_only = -1, read_write = -1;
  };
  std::map<Key, Open> files_;
};

}  // namespace uroce::sharing
