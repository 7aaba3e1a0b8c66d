// The memory mappings of this process (proc_pid_maps(5), proc_pid_smaps(5)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include <uroce/error.h>

namespace uroce::sharing {

struct Mapping {
  uintptr_t first = 0, end = 0;
  int protection = 0;  ///< PROT_*
  bool shared = false;
  uint64_t offset = 0;  ///< of `first` in the file
  dev_t device = 0;
  ino_t inode = 0;   ///< 0: anonymous
  std::string path;  ///< as the kernel shows it: a path, a name in brackets, or empty

  uint64_t offset_of(uintptr_t address) const { return offset + (address - first); }
  std::string name() const;  ///< for error texts
};

/// All mappings by address. Each page appears once, but mappings may change during the call.
Result<std::vector<Mapping>> read_mappings();

/// Properties that proc_pid_maps(5) lacks. Slow: the kernel walks the mapping's page tables.
struct MappingDetails {
  std::size_t page = 0;  ///< bytes
  bool device = false;   ///< device memory, or memory without page structures
};
Result<MappingDetails> read_details(const Mapping& mapping);

}  // namespace uroce::sharing
