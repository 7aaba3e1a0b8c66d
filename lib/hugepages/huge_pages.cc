#include "hugepages/huge_pages.h"

#include <stddef.h>

// The library's header has no linkage for C++, and includes nothing.
extern "C" {
#include <hugetlbfs.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <string>

namespace uroce::hugepages {
namespace {

uint64_t number_in(const std::string& path) {
  uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

}  // namespace

std::vector<HugePages> read() {
  std::array<long, 16> sizes{};
  const int count = gethugepagesizes(sizes.data(), sizes.size());
  std::vector<HugePages> out;
  for (const long size : std::span(sizes).first(static_cast<std::size_t>(std::max(count, 0)))) {
    // The library knows sizes and mounts. Numbers of pages are the kernel's alone, and its free ones include those that
    // mappings have reserved (Documentation/admin-guide/mm/hugetlbpage.rst).
    const std::string pool = fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/", size / 1024);
    const uint64_t free = number_in(pool + "free_hugepages");
    out.push_back({.page_bytes = static_cast<uint64_t>(size),
                   .reserved = number_in(pool + "nr_hugepages"),
                   .free = free - std::min(free, number_in(pool + "resv_hugepages")),
                   .mounted = hugetlbfs_find_path_for_size(size) != nullptr});
  }
  return out;
}

}  // namespace uroce::hugepages
