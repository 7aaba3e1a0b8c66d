// Parts that the programs of test_ordinary_memory.py share. They are written for libibverbs alone, and run under
// uroce-run.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ordinary {

using Byte = unsigned char;

inline const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

/// Prints one line, and ends this process even while other threads run.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void die(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::array<char, 512> line{};
  std::vsnprintf(line.data(), line.size(), format, values);
  va_end(values);
  std::fflush(stdout);
  dprintf(STDOUT_FILENO, "%s\n", line.data());
  _exit(1);
}

inline ibv_pd* open_pd() {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || *list == nullptr) die("expected a device; there is none");
  ibv_context* context = ibv_open_device(*list);
  ibv_pd* pd = context == nullptr ? nullptr : ibv_alloc_pd(context);
  if (pd == nullptr) die("cannot open the device: %s", std::strerror(errno));
  return pd;
}

inline ibv_mr* must_register(ibv_pd* pd, void* address, std::size_t length, int access = kAccess) {
  ibv_mr* mr = ibv_reg_mr(pd, address, length, access);
  if (mr == nullptr) die("expected %zu bytes at %p to be registered: %s", length, address, std::strerror(errno));
  return mr;
}

inline void must_deregister(ibv_mr* mr) {
  if (const int error = ibv_dereg_mr(mr); error != 0) die("expected a region to end: %s", std::strerror(error));
}

inline void register_and_deregister(ibv_pd* pd, void* address, std::size_t length) {
  must_deregister(must_register(pd, address, length));
}

/// Memory as mmap() gives it.
inline Byte* map_pages(std::size_t pages, int protection = PROT_READ | PROT_WRITE, void* at = nullptr) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED);
  void* memory = mmap(at, pages * kPage, protection, flags, -1, 0);
  if (memory == MAP_FAILED) die("expected %zu new pages: %s", pages, std::strerror(errno));
  return static_cast<Byte*>(memory);
}

/// Calls past libc, as allocators make them that are built into a program.
inline long raw_madvise(void* address, std::size_t length, int advice) {
  return syscall(SYS_madvise, address, length, advice);
}

/// A line of proc_pid_maps(5).
struct Mapping {
  uintptr_t first = 0, end = 0;
  std::array<char, 5> flags{};
  unsigned long inode = 0;
  bool is_private_anonymous() const { return flags[3] == 'p' && inode == 0; }
};

/// Calls `see` with each mapping of this process. Allocates nothing, because the heap may be what is looked at.
template <class See>
void for_each_mapping(const See& see) {
  static thread_local std::array<char, 65536> text;
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) die("cannot read /proc/self/maps: %s", std::strerror(errno));
  std::size_t kept = 0;
  for (ssize_t got; (got = read(fd, text.data() + kept, text.size() - 1 - kept)) > 0;) {
    char* const end = text.data() + kept + got;
    char* line = text.data();
    *end = '\0';
    for (char* stop; (stop = std::strchr(line, '\n')) != nullptr; line = stop + 1) {
      Mapping mapping;
      if (std::sscanf(line, "%lx-%lx %4s %*x %*s %lu", &mapping.first, &mapping.end, mapping.flags.data(),
                      &mapping.inode) == 4)
        see(mapping);
    }
    kept = static_cast<std::size_t>(end - line);
    std::memmove(text.data(), line, kept);
  }
  close(fd);
}

/// How many mappings have bytes of a range.
inline std::size_t mappings_within(const void* address, std::size_t length) {
  const auto first = reinterpret_cast<uintptr_t>(address);
  std::size_t count = 0;
  for_each_mapping([&](const Mapping& m) { count += m.first < first + length && m.end > first; });
  return count;
}

inline std::size_t all_mappings() { return mappings_within(nullptr, UINTPTR_MAX); }

/// Bytes of a range's pages that are not private anonymous memory.
inline std::size_t not_ordinary(const void* address, std::size_t length) {
  const auto first = reinterpret_cast<uintptr_t>(address) & ~(kPage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(address) + length + kPage - 1) & ~(kPage - 1);
  std::size_t ordinary = 0;
  for_each_mapping([&](const Mapping& m) {
    if (m.first >= end || m.end <= first || !m.is_private_anonymous()) return;
    ordinary += (m.end < end ? m.end : end) - (m.first > first ? m.first : first);
  });
  return end - first - ordinary;
}

/// Bytes of memory in files without a name that this process has open: what is left of moved pages, among others.
inline std::size_t bytes_in_nameless_files() {
  DIR* folder = opendir("/proc/self/fd");
  std::size_t bytes = 0;
  for (const dirent* entry; folder != nullptr && (entry = readdir(folder)) != nullptr;) {
    struct stat file{};
    if (fstat(std::atoi(entry->d_name), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0)
      bytes += static_cast<std::size_t>(file.st_blocks) * 512;
  }
  if (folder != nullptr) closedir(folder);
  return bytes;
}

/// Random numbers that a seed repeats (Steele and Vigna's SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % limit;
  }

 private:
  uint64_t state_;
};

}  // namespace ordinary
