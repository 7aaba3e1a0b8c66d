#include "perf/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cgroup/cgroup.h"

namespace uroce::perf {

Result<Buffer> Buffer::allocate(std::size_t bytes) {
  constexpr std::size_t kHuge = 2u << 20;
  const std::size_t unit = bytes >= kHuge ? kHuge : 4096;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  const auto machine = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * 4096;
  const std::size_t most = std::min<std::size_t>(machine / 2, cgroup::Groups().memory().left);
  const auto refuse = [&] {
    return fail(ENOMEM,
                fmt::format("the test needs {} MiB of memory, and may have {} MiB of the machine's {}; use fewer "
                            "QPs (-q), smaller messages (-s) or a smaller depth (-t, -r)",
                            rounded >> 20, most >> 20, machine >> 20));
  };
  if (rounded > most) return refuse();
  void* data = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return refuse();
  if (unit == kHuge) ::madvise(data, rounded, MADV_HUGEPAGE);
  std::memset(data, 0, rounded);  // take all page faults here, none in the measured time
  return Buffer(static_cast<std::byte*>(data), rounded);
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace uroce::perf
