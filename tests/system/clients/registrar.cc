// Registers a range of memory once, and tells what that cost.
//
// Usage: registrar KIND MIB   KIND: touched, sparse (every second page touched), untouched, thp (touched, in
// transparent huge pages), memfd (touched), hugetlb (touched)
//
// It says one line of JSON: the kind, seconds to register and to deregister, its own page faults in each, and how many
// KiB of the range lie in huge pages before and afterwards.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>
#include <iostream>
#include <string_view>

#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;

std::byte* map_memory(std::string_view kind, std::size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
  if (kind == "memfd") {
    flags = MAP_SHARED;
    fd = memfd_create("registrar", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) die("memfd_create");
  }
  if (kind == "hugetlb") flags |= MAP_HUGETLB;
  const std::size_t more = kind == "hugetlb" ? 0 : kHugePage;
  void* const mapped = mmap(nullptr, bytes + (fd < 0 ? more : 0), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (mapped == MAP_FAILED) die("cannot map memory of the kind " + std::string(kind));
  auto* at = static_cast<std::byte*>(mapped);
  if (kind == "memfd" || kind == "hugetlb") return at;
  at += -reinterpret_cast<uintptr_t>(at) % kHugePage;  // the range begins where a huge page may
  madvise(at, bytes, kind == "thp" ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return at;
}

/// Takes twice as much memory in huge pages, and gives it back. A hypervisor that takes free memory away returns it at
/// the next touch, which costs seconds per GiB, so the machine has the memory before anything is measured.
void warm(std::size_t bytes) {
  const std::size_t twice = 2 * bytes;
  void* const at = mmap(nullptr, twice, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) die("cannot map memory to warm the machine's");
  madvise(at, twice, MADV_HUGEPAGE);
  std::memset(at, 1, twice);
  munmap(at, twice);
}

/// Of the mappings that begin in [at, at + bytes).
long huge_kib(const std::byte* at, std::size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(at);
  std::ifstream smaps("/proc/self/smaps");
  long kib = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t from = 0, to = 0;
    long value = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) inside = from < first + bytes && to > first;
    for (const char* format :
         {"AnonHugePages: %ld", "ShmemPmdMapped: %ld", "Shared_Hugetlb: %ld", "Private_Hugetlb: %ld"}) {
      if (inside && std::sscanf(line.c_str(), format, &value) == 1) kib += value;
    }
  }
  return kib;
}

struct Cost {
  Clock::time_point start = Clock::now();
  long faults_before = faults();

  double cpu_before = cpu_seconds();

  static rusage used() {
    rusage out{};
    getrusage(RUSAGE_SELF, &out);
    return out;
  }
  static long faults() { return used().ru_minflt + used().ru_majflt; }
  static double cpu_seconds() {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(used().ru_utime) + seconds(used().ru_stime);
  }
  std::string text(const std::string& name) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double cpu = cpu_seconds() - cpu_before;
    return "\"" + name + "_s\": " + std::to_string(seconds) + ", \"" + name + "_cpu_s\": " + std::to_string(cpu) +
           ", \"" + name + "_faults\": " + std::to_string(faults() - faults_before) + ", ";
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("usage: registrar touched|sparse|untouched|thp|memfd|hugetlb MIB");
  const std::string_view kind = argv[1];
  const std::size_t bytes = std::stoul(argv[2]) << 20;
  Side side("uroce0");
  warm(bytes);
  std::byte* const at = map_memory(kind, bytes);
  const auto expected = [kind](std::size_t i) {
    return std::byte(kind == "untouched" || (kind == "sparse" && i / kPage % 2 != 0) ? 0 : 1);
  };
  for (std::size_t i = 0; i < bytes; i += kPage) {
    if (expected(i) != std::byte{0}) std::memset(at + i, 1, kPage);
  }
  std::string said =
      "{\"kind\": \"" + std::string(kind) + "\", \"huge_kib_before\": " + std::to_string(huge_kib(at, bytes)) + ", ";
  {
    const Cost registering;
    std::optional<MemoryRegion> mr = must(side.pd.register_memory(at, bytes, Side::kAll));
    said += registering.text("register");
    const Cost deregistering;
    mr.reset();
    said += deregistering.text("deregister");
  }
  for (std::size_t i = 0; i < bytes; i += kPage) {
    if (at[i] != expected(i)) die("the memory has changed");
  }
  std::cout << said << "\"huge_kib_after\": " << huge_kib(at, bytes) << "}" << std::endl;
}
