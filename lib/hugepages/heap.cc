#include "hugepages/heap.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace uroce::hugepages {

namespace {

constexpr uint64_t kMost = 256 << 20;
constexpr uint64_t kHugePage = 2 << 20;
/// mallopt(3) takes no more for M_MMAP_THRESHOLD. A larger object has a mapping of its own.
constexpr int kLargest = 32 << 20;
constexpr uint64_t kBlock = kLargest - kHugePage;
/// The C library's own values.
constexpr int kUsualMmap = 128 << 10, kUsualTrim = 128 << 10;

std::byte* end_of_heap() { return static_cast<std::byte*>(sbrk(0)); }

/// The pages in it that are whole.
void advise(std::byte* begin, const std::byte* end, uint64_t page, int advice) {
  const uint64_t skipped = -reinterpret_cast<uint64_t>(begin) % page;
  if (begin + skipped >= end) return;
  const uint64_t bytes = static_cast<uint64_t>(end - begin) - skipped;
  // An advice that the kernel does not know changes nothing.
  madvise(begin + skipped, bytes - bytes % page, advice);
}

}  // namespace

HeapReserve::HeapReserve(uint64_t bytes) {
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  bytes = std::min(bytes, kMost);
  std::byte* begin = end_of_heap();
  std::vector<void*> blocks;
  for (uint64_t rest = 2 * bytes; rest >= kHugePage; rest -= std::min(rest, kBlock)) {
    blocks.push_back(std::malloc(std::min(rest, kBlock)));
  }
  // The first block may begin in what was free at the end of the heap.
  if (!blocks.empty() && blocks.front() != nullptr) begin = std::min(begin, static_cast<std::byte*>(blocks.front()));
  std::byte* const end = end_of_heap();
  advise(begin, end, kHugePage, MADV_HUGEPAGE);
  advise(begin, std::min(begin + bytes, end), sysconf(_SC_PAGESIZE), MADV_POPULATE_WRITE);
  std::ranges::for_each(blocks, &std::free);
}

HeapReserve::~HeapReserve() {
  mallopt(M_MMAP_THRESHOLD, kUsualMmap);
  mallopt(M_TRIM_THRESHOLD, kUsualTrim);
  malloc_trim(0);
}

uint64_t anonymous_bytes(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  uint64_t shared = 0;
  if (!(file >> size >> resident >> shared) || shared > resident) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

uint64_t anonymous_bytes_beyond(uint64_t base, pid_t process) {
  return std::max(anonymous_bytes(process), base) - base;
}

}  // namespace uroce::hugepages
