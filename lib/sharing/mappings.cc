#include "sharing/mappings.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

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

std::optional<Mapping> parse_mapping(const char* line) {
  Mapping mapping;
  uint64_t first = 0, end = 0, inode = 0;
  unsigned major = 0, minor = 0;
  char permissions[5] = {};
  int rest = 0;
  const int fields = std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &first, &end,
                                 permissions, &mapping.offset, &major, &minor, &inode, &rest);
  if (fields != 7) return std::nullopt;
  mapping.first = first;
  mapping.end = end;
  if (permissions[0] == 'r') mapping.protection |= PROT_READ;
  if (permissions[1] == 'w') mapping.protection |= PROT_WRITE;
  if (permissions[2] == 'x') mapping.protection |= PROT_EXEC;
  mapping.shared = permissions[3] == 's';
  mapping.device = ::makedev(major, minor);
  mapping.inode = inode;
  mapping.path = line + rest;
  return mapping;
}

}  // namespace

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

Result<MappingDetails> read_details(const Mapping& mapping) {
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
