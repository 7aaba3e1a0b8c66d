// Descriptors of the files behind shared mappings.
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

  /// A descriptor of the file, for reading or for reading and writing. Errors: EOPNOTSUPP (the file has no name
  /// and no open descriptor, and the process lacks the privilege to open it through /proc), EACCES.
  Result<int> open(const Mapping& mapping, bool writable);

  /// Closes the descriptors of files that are no longer mapped.
  void keep_only(const std::vector<Mapping>& mappings);
  void close_all();

 private:
  struct Open {
    int read_only = -1, read_write = -1;
  };
  std::map<Key, Open> files_;
};

}  // namespace uroce::sharing
