#include "hugepages/huge_pages.h"

#include <fcntl.h>
#include <mntent.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// The library's header has no linkage for C++, and includes nothing.
extern "C" {
#include <hugetlbfs.h>
}

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace uroce::hugepages {
namespace {

uint64_t number_in(const std::string& path) {
  uint64_t number = 0;
  std::ifstream(path) >> number;
  return number;
}

bool may_open(const char* folder) {
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  close(fd);
  return true;
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

bool closed_mount() {
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(setmntent("/proc/self/mounts", "r"), endmntent);
  if (!mounts) return false;
  mntent entry{};
  std::array<char, 4096> words{};
  while (getmntent_r(mounts.get(), &entry, words.data(), static_cast<int>(words.size())) != nullptr) {
    if (std::string_view(entry.mnt_type) == "hugetlbfs" && !may_open(entry.mnt_dir)) return true;
  }
  return false;
}

bool may_be_placed() { return syscall(SYS_get_mempolicy, nullptr, nullptr, 0, nullptr, 0) == 0 || errno != EPERM; }

}  // namespace uroce::hugepages
