// Registers memory and ends the regions, and says in one line of JSON what that cost. Written for libibverbs alone, and
// runs under uroce-run.
//
//   registrar range KIND MIB    one range, once
//       KIND: touched, sparse (every second page touched), untouched, thp (touched, in transparent huge pages), memfd
//       (touched), hugetlb (touched)
//   registrar pieces BYTES COUNT fresh|again OTHERS    COUNT touched pieces, or one piece COUNT times, beside OTHERS
//       other mappings: medians, and the CPU time of each cycle
//   registrar fork MIB COUNT plain|init    COUNT calls of fork(), and as many while the touched MIB are registered,
//       where `init` calls ibv_fork_init() first: medians
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "ordinary.h"

namespace {

using namespace ordinary;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kHugePage = std::size_t{2} << 20;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// The time of all threads.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string field(const std::string& name, double value) { return "\"" + name + "\": " + std::to_string(value); }

// --- Memory. ---

/// Private pages of 4 KiB, each of them touched.
Byte* touched_pages(std::size_t bytes) {
  Byte* const at = map_pages((bytes + kPage - 1) / kPage);
  madvise(at, bytes, MADV_NOHUGEPAGE);
  std::memset(at, 1, bytes);
  return at;
}

Byte* map_memory(std::string_view kind, std::size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
  if (kind == "memfd") {
    flags = MAP_SHARED;
    fd = memfd_create("registrar", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) die("memfd_create: %s", std::strerror(errno));
  }
  if (kind == "hugetlb") flags |= MAP_HUGETLB;
  const std::size_t more = kind == "hugetlb" ? 0 : kHugePage;
  void* const mapped = mmap(nullptr, bytes + (fd < 0 ? more : 0), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (mapped == MAP_FAILED) die("cannot map memory of the kind %s", kind.data());
  Byte* at = static_cast<Byte*>(mapped);
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

/// The protections alternate, so the kernel makes no single mapping of them.
void map_others(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) map_pages(1, i % 2 != 0 ? PROT_READ : PROT_READ | PROT_WRITE);
  if (all_mappings() < count) die("expected %zu mappings; there are %zu", count, all_mappings());
}

/// Of the mappings that have bytes of [at, at + bytes).
long huge_kib(const Byte* at, std::size_t bytes) {
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

// --- One range. ---

struct Cost {
  Clock::time_point start = Clock::now();
  long faults_before = faults();
  double cpu_before = cpu_seconds();

  static long faults() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt + used.ru_majflt;
  }
  std::string text(const std::string& name) const {
    const double seconds = microseconds_since(start) / 1e6, cpu = cpu_seconds() - cpu_before;
    return field(name + "_s", seconds) + ", " + field(name + "_cpu_s", cpu) + ", \"" + name +
           "_faults\": " + std::to_string(faults() - faults_before) + ", ";
  }
};

std::string range(ibv_pd* pd, std::string_view kind, std::size_t bytes) {
  warm(bytes);
  Byte* const at = map_memory(kind, bytes);
  const auto expected = [kind](std::size_t i) -> Byte {
    return kind == "untouched" || (kind == "sparse" && i / kPage % 2 != 0) ? 0 : 1;
  };
  for (std::size_t i = 0; i < bytes; i += kPage) {
    if (expected(i) != 0) std::memset(at + i, 1, kPage);
  }
  std::string said = "\"huge_kib_before\": " + std::to_string(huge_kib(at, bytes)) + ", ";
  const Cost registering;
  ibv_mr* const mr = must_register(pd, at, bytes);
  said += registering.text("register");
  const Cost deregistering;
  must_deregister(mr);
  said += deregistering.text("deregister");
  for (std::size_t i = 0; i < bytes; i += kPage) {
    if (at[i] != expected(i)) die("the memory has changed");
  }
  return said + "\"huge_kib_after\": " + std::to_string(huge_kib(at, bytes));
}

// --- Many pieces. ---

std::string pieces(ibv_pd* pd, std::size_t bytes, std::size_t count, bool fresh, std::size_t others) {
  map_others(others);
  const std::size_t all = fresh ? bytes * count : bytes;
  Byte* const at = touched_pages(all);
  std::vector<double> registering(count), deregistering(count), both(count);
  const double cpu_before = cpu_seconds();
  for (std::size_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    ibv_mr* const mr = must_register(pd, at + (fresh ? i * bytes : 0), bytes);
    registering[i] = microseconds_since(start);
    must_deregister(mr);
    both[i] = microseconds_since(start);
    deregistering[i] = both[i] - registering[i];
  }
  const double cpu_us = (cpu_seconds() - cpu_before) * 1e6 / static_cast<double>(count);
  if (std::count(at, at + all, 1) != static_cast<std::ptrdiff_t>(all)) die("the memory has changed");
  return field("register_us", median(registering)) + ", " + field("deregister_us", median(deregistering)) + ", " +
         field("both_us", median(both)) + ", " + field("cpu_us", cpu_us);
}

// --- fork(). ---

/// The call in the parent, and the time until the child has ended, which does nothing.
std::string forks(const std::string& name, std::size_t count) {
  std::vector<double> call(count), ended(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0) die("fork: %s", std::strerror(errno));
    call[i] = microseconds_since(start) / 1e3;
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) die("a child ended with the status %d", status);
    ended[i] = microseconds_since(start) / 1e3;
  }
  return field(name + "_call_ms", median(call)) + ", " + field(name + "_ended_ms", median(ended));
}

std::string fork_twice(ibv_pd* pd, std::size_t bytes, std::size_t count) {
  warm(bytes);
  Byte* const at = touched_pages(bytes);
  const std::string without = forks("without", count);
  ibv_mr* const mr = must_register(pd, at, bytes);
  const std::string with = forks("with", count);
  must_deregister(mr);
  return without + ", " + with;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto is = [&words](const char* mode, std::size_t count) { return words.size() == count && words[0] == mode; };
  const auto count_at = [&words](std::size_t i) -> std::size_t { return std::stoul(words[i]); };
  if (is("fork", 4) && words[3] == "init" && ibv_fork_init() != 0) die("ibv_fork_init has failed");
  ibv_pd* const pd = open_pd();
  register_and_deregister(pd, touched_pages(kPage), kPage);  // what only the first region of a process needs
  std::string said;
  if (is("range", 3))
    said = range(pd, words[1], count_at(2) << 20);
  else if (is("pieces", 5))
    said = pieces(pd, count_at(1), count_at(2), words[3] == "fresh", count_at(4));
  else if (is("fork", 4))
    said = fork_twice(pd, count_at(1) << 20, count_at(2));
  else
    die("write: registrar range KIND MIB | pieces BYTES COUNT fresh|again OTHERS | fork MIB COUNT plain|init");
  std::printf("{%s}\n", said.c_str());
}
