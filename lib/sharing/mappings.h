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
  ino_t inode = 0;       ///< 0: anonymous
  std::size_t page = 0;  ///< bytes of a page; 0: read_details() finds out
  std::string path;      ///< as the kernel shows it: a path, a name in brackets, or empty

  uint64_t offset_of(uintptr_t address) const { return offset + (address - first); }
  std::string name() const;  ///< for error texts
};

/// All mappings by address. Each page appears once, but mappings may change during the call. Its time grows with the
/// number of mappings.
Result<std::vector<Mapping>> read_mappings();
/// Those with pages in [first, end), each in full. Other mappings cost no time (PROCMAP_QUERY of Linux 6.11; older
/// kernels: as read_mappings()).
Result<std::vector<Mapping>> read_mappings(uintptr_t first, uintptr_t end);

/// A descriptor of this process's /proc/self/maps. It stays open, because opening it costs ten times what a query does.
/// One thread at a time.
class MapsFile {
 public:
  /// The descriptor, or -1. It is opened anew where the program has closed it, and in a child of fork().
  static int of_this_process();
  /// For a child of fork(), which has its parent's.
  static void forget();
};
/// The same by that descriptor.
Result<std::vector<Mapping>> read_mappings(int maps, uintptr_t first, uintptr_t end);

/// Where a mapping maps a file from.
struct Place {
  uintptr_t first = 0, end = 0;
  uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
};
/// The mapping that holds `address`, or the next one above it. `maps`: a descriptor of /proc/self/maps. The call
/// neither allocates nor sets errno. Returns ENOENT where there is none, and another errno value where the kernel
/// cannot tell (before Linux 6.11).
int find_place(int maps, uintptr_t address, Place& place);

/// False for files with a path outside /dev, and for what stands in for memory there.
bool may_be_device(const Mapping& mapping);
/// Properties that proc_pid_maps(5) lacks. Slow where the mapping may be a device's or has no `page`: the kernel walks
/// the page tables of all mappings.
struct MappingDetails {
  std::size_t page = 0;  ///< bytes
  bool device = false;   ///< device memory, or memory without page structures
};
Result<MappingDetails> read_details(const Mapping& mapping);

}  // namespace uroce::sharing
