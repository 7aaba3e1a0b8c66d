#include "sharing/mappings.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

/// Lines of a file in /proc.
class Lines {
 public:
  explicit Lines(const char* path) : file_(std::fopen(path, "re")) {}
  ~Lines() {
    std::free(line_);
    if (file_ != nullptr) std::fclose(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  bool is_open() const { return file_ != nullptr; }
  const char* next() {
    const ssize_t length = ::getline(&line_, &capacity_, file_);
    if (length <= 0) return nullptr;
    if (line_[length - 1] == '\n') line_[length - 1] = '\0';
    return line_;
  }

 private:
  std::FILE* file_;
  char* line_ = nullptr;
  std::size_t capacity_ = 0;
};

/// Takes a number of base `base` off the front of `line`.
template <class T>
bool take(const char*& line, T& value, char ends_with, int base = 16) {
  const auto [rest, error] = std::from_chars(line, line + std::strlen(line), value, base);
  if (error != std::errc{} || *rest != ends_with) return false;
  line = rest + 1;
  return true;
}

std::optional<Mapping> parse_mapping(const char* line) {
  Mapping mapping;
  uint64_t inode = 0;
  unsigned major = 0, minor = 0;
  if (!take(line, mapping.first, '-') || !take(line, mapping.end, ' ')) return std::nullopt;
  const std::string_view permissions(line, ::strnlen(line, 5));
  if (permissions.size() < 5) return std::nullopt;
  line += permissions.size();
  if (!take(line, mapping.offset, ' ') || !take(line, major, ':') || !take(line, minor, ' ')) return std::nullopt;
  const auto [rest, error] = std::from_chars(line, line + std::strlen(line), inode);
  if (error != std::errc{}) return std::nullopt;
  if (permissions[0] == 'r') mapping.protection |= PROT_READ;
  if (permissions[1] == 'w') mapping.protection |= PROT_WRITE;
  if (permissions[2] == 'x') mapping.protection |= PROT_EXEC;
  mapping.shared = permissions[3] == 's';
  mapping.device = ::makedev(major, minor);
  mapping.inode = inode;
  mapping.path = rest + std::strspn(rest, " ");
  return mapping;
}

/// struct procmap_query of <linux/fs.h>, which the headers of older kernels lack.
struct ProcmapQuery {
  uint64_t size = sizeof(ProcmapQuery);
  uint64_t query_flags = 0;
  uint64_t query_address = 0;
  uint64_t first = 0, end = 0;
  uint64_t flags = 0;
  uint64_t page = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  uint32_t major = 0, minor = 0;
  uint32_t name_size = 0;
  uint32_t build_id_size = 0;
  uint64_t name_address = 0;
  uint64_t build_id_address = 0;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr long kHugetlbfsMagic = 0x958458f6;
constexpr uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8, kCoveringOrNext = 16;

/// The mapping that holds `address`, or the next one above it. nullopt with errno: ENOENT where there is none.
std::optional<Mapping> query_mapping(int maps, uintptr_t address) {
  char name[PATH_MAX + 16];  // and " (deleted)"
  ProcmapQuery query{.query_flags = kCoveringOrNext, .query_address = address};
  query.name_size = sizeof(name);
  query.name_address = word_of(name);
  if (::ioctl(maps, kProcmapQuery, &query) != 0) return std::nullopt;
  Mapping mapping;
  mapping.first = query.first;
  mapping.end = query.end;
  if ((query.flags & kReadable) != 0) mapping.protection |= PROT_READ;
  if ((query.flags & kWritable) != 0) mapping.protection |= PROT_WRITE;
  if ((query.flags & kExecutable) != 0) mapping.protection |= PROT_EXEC;
  mapping.shared = (query.flags & kShared) != 0;
  mapping.offset = query.offset;
  mapping.device = ::makedev(query.major, query.minor);
  mapping.inode = query.inode;
  mapping.page = query.page;
  if (query.name_size != 0) mapping.path = name;
  return mapping;
}

int open_maps() { return ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }

/// nullopt where the kernel has no such query.
std::optional<std::vector<Mapping>> query_mappings(int maps, uintptr_t first, uintptr_t end) {
  if (maps < 0) return std::nullopt;
  std::optional<std::vector<Mapping>> found(std::in_place);
  for (uintptr_t at = first; at < end; at = found->back().end) {
    auto mapping = query_mapping(maps, at);
    if (!mapping && errno != ENOENT) found.reset();
    if (!mapping || mapping->first >= end) break;
    found->push_back(std::move(*mapping));
  }
  return found;
}

struct KeptMaps {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
  pid_t process = -1;
};
KeptMaps kept_maps;

/// Whether `fd` still is what was kept: a program may close what it does not know.
bool is_kept(int fd) {
  struct stat file{};
  return ::fstat(fd, &file) == 0 && file.st_dev == kept_maps.device && file.st_ino == kept_maps.inode;
}

}  // namespace

int MapsFile::of_this_process() {
  const pid_t self = ::getpid();
  if (kept_maps.process == self && is_kept(kept_maps.fd)) return kept_maps.fd;
  struct stat file{};
  const int fd = open_maps();
  if (fd >= 0 && ::fstat(fd, &file) == 0) kept_maps = {fd, file.st_dev, file.st_ino, self};
  return fd;
}

void MapsFile::forget() {
  if (kept_maps.fd >= 0 && is_kept(kept_maps.fd)) ::close(kept_maps.fd);
  kept_maps = {};
}

int find_place(int maps, uintptr_t address, Place& place) {
  ProcmapQuery query{.query_flags = kCoveringOrNext, .query_address = address};
  const long done = raw_syscall(SYS_ioctl, static_cast<uintptr_t>(maps), kProcmapQuery, word_of(&query));
  if (done < 0) return static_cast<int>(-done);
  place = {query.first, query.end, query.offset, ::makedev(query.major, query.minor), query.inode};
  return 0;
}

std::string Mapping::name() const {
  return fmt::format("{} at {:#x}-{:#x}", path.empty() ? "memory" : path.c_str(), first, end);
}

Result<std::vector<Mapping>> read_mappings() {
  Lines lines("/proc/self/maps");
  if (!lines.is_open()) {
    return fail(errno, fmt::format("cannot read the process's mappings from /proc/self/maps: errno {}", errno));
  }
  std::vector<Mapping> mappings;
  while (const char* line = lines.next()) {
    if (auto mapping = parse_mapping(line)) mappings.push_back(std::move(*mapping));
  }
  return mappings;
}

Result<std::vector<Mapping>> read_mappings(uintptr_t first, uintptr_t end) {
  const int maps = open_maps();
  auto found = read_mappings(maps, first, end);
  if (maps >= 0) ::close(maps);
  return found;
}

Result<std::vector<Mapping>> read_mappings(int maps, uintptr_t first, uintptr_t end) {
  if (auto found = query_mappings(maps, first, end)) return std::move(*found);
  auto all = read_mappings();
  if (all) std::erase_if(*all, [&](const Mapping& mapping) { return mapping.end <= first || mapping.first >= end; });
  return all;
}

namespace {

/// Whether its file's folder is of hugetlbfs, as /dev/hugepages is. The file's name may be gone.
bool on_hugetlbfs(const Mapping& mapping) {
  const std::string folder = mapping.path.substr(0, mapping.path.rfind('/'));
  struct stat status{};
  struct statfs system{};
  return ::stat(folder.c_str(), &status) == 0 && status.st_dev == mapping.device &&
         ::statfs(folder.c_str(), &system) == 0 && system.f_type == kHugetlbfsMagic;
}

}  // namespace

bool may_be_device(const Mapping& mapping) {
  const std::string_view path = mapping.path;
  if (path.starts_with("/dev/shm/") || path.starts_with("/dev/zero")) return false;
  if (path.starts_with("/dev/") && on_hugetlbfs(mapping)) return false;
  return !path.starts_with('/') || path.starts_with("/dev/") || path.starts_with("/dmabuf");
}

Result<MappingDetails> read_details(const Mapping& mapping) {
  if (mapping.page != 0 && !may_be_device(mapping)) return MappingDetails{.page = mapping.page, .device = false};
  Lines lines("/proc/self/smaps");
  if (!lines.is_open())
    return fail(errno, fmt::format("cannot read the process's mappings from /proc/self/smaps: errno {}", errno));
  MappingDetails details{.page = page_size(), .device = false};
  bool here = false;
  while (const char* line = lines.next()) {
    uint64_t kilobytes = 0;
    if (std::sscanf(line, "KernelPageSize: %" SCNu64, &kilobytes) == 1) {
      if (here) details.page = kilobytes * 1024;
    } else if (std::strncmp(line, "VmFlags:", 8) == 0) {
      if (!here) continue;
      details.device = std::strstr(line, " io") != nullptr || std::strstr(line, " pf") != nullptr;
      return details;
    } else if (const auto start = parse_mapping(line)) {
      here = start->first <= mapping.first && mapping.first < start->end;
    }
  }
  return fail(EFAULT, fmt::format("{} was unmapped while it was being shared; keep memory mapped while registering it",
                                  mapping.name()));
}

}  // namespace uroce::sharing
