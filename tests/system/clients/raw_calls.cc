// After the end of a region its pages are private anonymous memory: system calls that are made past libc behave so.
//
//   raw_calls NAME...
//
// Without a name it prints all names. Each check has memory that was registered and its twin, which never was. The
// calls must do the same to both. Prints "ok NAME", or "not ok NAME: " and what was expected.
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <string_view>

#include "ordinary.h"
#include "raw_twins.h"

using namespace ordinary;

namespace {

void is_ordinary() {
  const Byte* memory = were_registered();
  expect(not_ordinary(memory, kBytes) == 0, "expected private anonymous memory; %zu bytes are not",
         not_ordinary(memory, kBytes));
  expect(mappings_within(memory, kBytes) == 1, "expected one mapping, found %zu", mappings_within(memory, kBytes));
}

void flags() {
  const Byte *memory = were_registered(), *twin = lone_pages();
  expect(flags_of(memory) == flags_of(twin), "expected '%s', found '%s'", flags_of(twin).c_str(),
         flags_of(memory).c_str());
}

void dont_need() {
  Byte* memory = were_registered();
  expect(raw_madvise(memory + kPage, kBytes - 2 * kPage, MADV_DONTNEED) == 0, "expected MADV_DONTNEED to be accepted");
  expect_content(memory, 0, kPage, "before MADV_DONTNEED's range");
  expect_zeros(memory, kPage, kBytes - kPage, "after MADV_DONTNEED");
  expect_content(memory, kBytes - kPage, kBytes, "behind MADV_DONTNEED's range");
}

void advice() {
  static constexpr std::array<std::pair<int, const char*>, 12> kAdvice = {{
      {MADV_FREE, "MADV_FREE"},
      {MADV_REMOVE, "MADV_REMOVE"},
      {MADV_MERGEABLE, "MADV_MERGEABLE"},
      {MADV_UNMERGEABLE, "MADV_UNMERGEABLE"},
      {MADV_HUGEPAGE, "MADV_HUGEPAGE"},
      {MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE"},
      {MADV_DONTDUMP, "MADV_DONTDUMP"},
      {MADV_WIPEONFORK, "MADV_WIPEONFORK"},
      {MADV_KEEPONFORK, "MADV_KEEPONFORK"},
      {MADV_DONTFORK, "MADV_DONTFORK"},
      {20, "MADV_COLD"},
      {21, "MADV_PAGEOUT"},
  }};
  for (const auto& [number, name] : kAdvice) {
    Byte *memory = were_registered(), *twin = lone_pages();
    const int error = error_of(raw_madvise(memory, kBytes, number)),
              wanted = error_of(raw_madvise(twin, kBytes, number));
    expect_same(name, error, wanted);
    expect(flags_of(memory) == flags_of(twin), "%s: expected '%s', found '%s'", name, flags_of(twin).c_str(),
           flags_of(memory).c_str());
    if (number != MADV_FREE) expect_content(memory, 0, kBytes, name);
  }
}

void raw_fork() {
  Byte* memory = were_registered();
  memory[0] = 1, memory[kPage] = 1;
  const int seen = in_raw_child([&] { memory[0] = 2; },
                                [&] {
                                  memory[kPage] = 3;
                                  return int{memory[0]};
                                });
  expect(seen == 1, "expected a child of clone(2) to see 1, stored before it was made; it saw %d", seen);
  expect(memory[kPage] == 1, "expected 1, found %d, which a child of clone(2) has stored", memory[kPage]);
}

void wipe_on_fork() {
  Byte* memory = were_registered();
  expect(raw_madvise(memory, kBytes, MADV_WIPEONFORK) == 0, "expected MADV_WIPEONFORK to be accepted: %s",
         std::strerror(errno));
  const int seen = in_raw_child([] {}, [&] { return int{memory[5]}; });
  expect(seen == 0, "expected a child to see zeros after MADV_WIPEONFORK; it saw %d", seen);
  expect_content(memory, 0, kBytes, "in the parent");
}

void after_fork_init() {
  Byte* memory = were_registered();
  const int seen = in_raw_child([] {}, [&] { return int{memory[5]}; });
  expect(seen == value(5), "expected a child to see %d after ibv_fork_init() and the region's end; it saw %d", value(5),
         seen);
}

void grow() {
  Byte* memory = were_registered();
  were_registered();  // what follows the pages, wherever they were kept
  auto* grown = static_cast<Byte*>(mremap(memory, kBytes, 4 * kBytes, MREMAP_MAYMOVE));
  if (grown == MAP_FAILED)
    return expect(false, "expected mremap() to make the memory longer: %s", std::strerror(errno));
  expect_content(grown, 0, kBytes, "after mremap()");
  expect_zeros(grown, kBytes, 4 * kBytes, "what mremap() added");
  grown[4 * kBytes - 1] = 1;
}

void move() {
  Byte* memory = were_registered();
  Byte* place = map_pages(kPages);
  const std::size_t half = kBytes / 2;
  void* moved = mremap(memory + half, half, half, MREMAP_MAYMOVE | MREMAP_FIXED, place + half);
  expect(moved == place + half, "expected mremap() to move half of the memory: %s", std::strerror(errno));
  expect_content(memory, 0, half, "what stayed");
  expect_content(place, half, kBytes, "what mremap() moved");
  expect_zeros(map_pages(kPages / 2, PROT_READ, memory + half), 0, half, "new memory in its place");
}

void duplicate() {
  Byte *memory = were_registered(), *twin = lone_pages();
  const int error = mremap(memory, 0, kBytes, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0;
  expect_same("mremap() of no bytes", error, mremap(twin, 0, kBytes, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0);
}

void keep_old_place() {
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP
  Byte* memory = were_registered();
  auto* moved = static_cast<Byte*>(mremap(memory, kBytes, kBytes, MREMAP_MAYMOVE | kDontUnmap, nullptr));
  if (moved == MAP_FAILED) return expect(false, "expected MREMAP_DONTUNMAP to be accepted: %s", std::strerror(errno));
  expect_content(moved, 0, kBytes, "after MREMAP_DONTUNMAP");
  expect_zeros(memory, 0, kBytes, "the old place after MREMAP_DONTUNMAP");
}

void protect() {
  Byte* memory = were_registered();
  if (mprotect(memory + kPage, kPage, PROT_NONE) != 0) die("mprotect: %s", std::strerror(errno));
  memory[0] = memory[2 * kPage] = 0;
  if (mprotect(memory + kPage, kPage, PROT_READ | PROT_WRITE) != 0) die("mprotect: %s", std::strerror(errno));
  memory[0] = value(0), memory[2 * kPage] = value(2 * kPage);
  expect_content(memory, 0, kBytes, "after mprotect()");
  expect(mappings_within(memory, kBytes) == 1, "expected one mapping again after mprotect(), found %zu",
         mappings_within(memory, kBytes));
  // Protections that change while the memory is registered stay as they are.
  ibv_mr* region = must_register(pd, memory, kBytes, 0);
  if (mprotect(memory + kPage, kPage, PROT_READ) != 0) die("mprotect: %s", std::strerror(errno));
  must_deregister(region);
  expect(flags_of(memory + kPage).find(" wr") == std::string::npos, "expected a read-only page to stay so, found '%s'",
         flags_of(memory + kPage).c_str());
  expect(flags_of(memory).find(" wr") != std::string::npos, "expected its neighbour to stay writable");
}

void unmap_part() {
  Byte* memory = were_registered();
  if (munmap(memory + 2 * kPage, 3 * kPage) != 0) die("munmap: %s", std::strerror(errno));
  map_pages(3, PROT_READ | PROT_WRITE, memory + 2 * kPage);
  expect_content(memory, 0, 2 * kPage, "before a hole");
  expect_zeros(memory, 2 * kPage, 5 * kPage, "new memory in a hole");
  expect_content(memory, 5 * kPage, kBytes, "behind a hole");
  expect(mappings_within(memory, kBytes) == 1,
         "expected new memory to merge with its neighbours into one mapping, found %zu",
         mappings_within(memory, kBytes));
}

void end_of_heap() {
  if (const auto odd = reinterpret_cast<uintptr_t>(sbrk(0)) % kPage; odd != 0) sbrk(static_cast<intptr_t>(kPage - odd));
  auto* memory = static_cast<Byte*>(sbrk(static_cast<intptr_t>(kBytes)));
  fill(memory);
  register_and_deregister(pd, memory, kBytes);
  expect_content(memory, 0, kBytes, "the end of the heap");
  expect(not_ordinary(memory, kBytes) == 0, "expected private anonymous memory; %zu bytes of the heap are not",
         not_ordinary(memory, kBytes));
  if (sbrk(0) != memory + kBytes) return expect(false, "the C library has taken more of the heap; run it again");
  expect(syscall(SYS_brk, memory + kPage) == reinterpret_cast<long>(memory + kPage),
         "expected brk(2) to shorten the heap");
  expect(syscall(SYS_brk, memory + kBytes) == reinterpret_cast<long>(memory + kBytes),
         "expected brk(2) to lengthen it");
  expect_content(memory, 0, kPage, "what stayed of the heap");
  expect_zeros(memory, kPage, kBytes, "new memory of the heap");
}

void static_data() {
  alignas(4096) static std::array<Byte, 65536> data;
  fill(data.data(), data.size());
  register_and_deregister(pd, data.data(), data.size());
  expect_content(data.data(), 0, data.size(), "static data");
  expect(not_ordinary(data.data(), data.size()) == 0,
         "expected private anonymous memory; %zu bytes of static data are not", not_ordinary(data.data(), data.size()));
}

__attribute__((noinline)) int deep(int levels) {
  std::array<volatile char, 4096> frame;
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? frame[0] : deep(levels - 1) + frame[0];
}
/// The kernel lengthens the mapping of the stack downwards, if it is one still.
void end_of_stack() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  uintptr_t lowest = 0;
  for_each_mapping([&](const Mapping& m) {
    if (m.first <= here && here < m.end) lowest = m.first;
  });
  register_and_deregister(pd, reinterpret_cast<void*>(lowest), kPage);
  expect(not_ordinary(reinterpret_cast<void*>(lowest), kPage) == 0,
         "expected private anonymous memory; the stack is not");
  deep(512);
}

void own_userfaultfd() {
  const auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
  uffdio_api api{UFFD_API, 0, 0};
  if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) die("expected a userfaultfd: %s", std::strerror(errno));
  const auto guard = [&](Byte* memory, uint64_t& calls) {
    uffdio_register range{{reinterpret_cast<uint64_t>(memory), kBytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
    const int error = error_of(ioctl(fd, UFFDIO_REGISTER, &range));
    calls = range.ioctls;
    return error;
  };
  uint64_t calls = 0, wanted = 0;
  expect_same("UFFDIO_REGISTER", guard(were_registered(), calls), guard(lone_pages(), wanted));
  expect(calls == wanted, "UFFDIO_REGISTER: expected the calls %lx, found %lx", static_cast<unsigned long>(wanted),
         static_cast<unsigned long>(calls));
  close(fd);
}

struct Check {
  const char* name;
  void (*run)();
};
constexpr std::array<Check, 17> kChecks = {{
    {"is_ordinary", is_ordinary},
    {"flags", flags},
    {"dont_need", dont_need},
    {"advice", advice},
    {"raw_fork", raw_fork},
    {"wipe_on_fork", wipe_on_fork},
    {"grow", grow},
    {"move", move},
    {"duplicate", duplicate},
    {"keep_old_place", keep_old_place},
    {"protect", protect},
    {"unmap_part", unmap_part},
    {"end_of_heap", end_of_heap},
    {"static_data", static_data},
    {"own_userfaultfd", own_userfaultfd},
    {"end_of_stack", end_of_stack},
    {"after_fork_init", after_fork_init},
}};

const char* running = "";
void on_fault(int number) {
  dprintf(STDOUT_FILENO, "not ok %s: expected no signal, got %d\n", running, number);
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const Check& check : kChecks) std::printf("%s\n", check.name);
    return 0;
  }
  if (std::string_view(argv[1]) == "after_fork_init" && ibv_fork_init() != 0) die("ibv_fork_init() failed");
  static std::array<Byte, 65536> signal_stack;
  const stack_t other{signal_stack.data(), 0, signal_stack.size()};
  struct sigaction action{};
  action.sa_handler = on_fault;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&other, nullptr) != 0 || sigaction(SIGSEGV, &action, nullptr) != 0 ||
      sigaction(SIGBUS, &action, nullptr) != 0)
    die("sigaction: %s", std::strerror(errno));
  pd = open_pd();
  int failed = 0;
  for (const Check& check : kChecks) {
    if (std::none_of(argv + 1, argv + argc, [&](std::string_view name) { return name == check.name; })) continue;
    running = check.name;
    wrong.clear();
    check.run();
    std::printf("%sok %s%s%s\n", wrong.empty() ? "" : "not ", running, wrong.empty() ? "" : ": ", wrong.c_str());
    std::fflush(stdout);
    failed += !wrong.empty();
  }
  return failed == 0 ? 0 : 1;
}
