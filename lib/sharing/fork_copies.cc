#include "sharing/fork_copies.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <list>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "sharing/addresses.h"
#include "sharing/page_joiners.h"
#include "sharing/page_mover.h"
#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

// The stack frames between fork() and its handlers, and the thread's control block.
constexpr std::size_t kFramesBelow = 64 * 1024, kFramesAbove = 16 * 1024;
constexpr std::size_t kThreadBelow = 16 * 1024, kThreadAbove = 8 * 1024;
// malloc's arenas of other threads start at multiples of this size (HEAP_MAX_SIZE of glibc on 64-bit machines).
constexpr std::size_t kMallocHeap = std::size_t{64} << 20;

void unmap(uintptr_t at, std::size_t length) {
  if (at != 0) ::munmap(memory_at(at), length);
}

bool read_file(int fd, uint64_t offset, uintptr_t to, std::size_t length) {
  for (std::size_t done = 0; done < length;) {
    const long got = raw_syscall(SYS_pread64, static_cast<uintptr_t>(fd), to + done, length - done, offset + done);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

void give_up(const char* text, std::size_t length) {
  (void)!::write(STDERR_FILENO, text, length);
  std::abort();
}

void remove_around(Intervals& from, uintptr_t address, std::size_t below, std::size_t above) {
  from.remove(round_down(address - below, page_size()), round_up(address + above, page_size()));
}

// The C library lists all thread control blocks, also those of ended threads, and stores into them in the child. Call
// this only when the child gets whole pages: the search reads every one of them.
void remove_thread_blocks(Intervals& from, uintptr_t mapped_from) {
  for (const auto& [first, end] : from.all()) {
    uintptr_t at = std::max(mapped_from, first - kThreadBlockBytes);
    for (; (at = find_thread_block(at, end, end - first)) < end; ++at) remove_around(from, at, 0, kThreadBlockBytes);
  }
}

/// Puts shared pages in place until one fails, and removes those from `work`. A page that another thread has unmapped
/// meanwhile is left out. False where a page that is there fails.
bool put(std::vector<Replacement>& work) {
  const auto moved = replace_pages(work, PageKind::anonymous, page_size());
  if (!moved) return false;
  work.erase(work.begin(), work.begin() + static_cast<std::ptrdiff_t>(moved->runs));
  if (work.empty()) return true;
  Replacement& rest = work.front();
  const uintptr_t at = rest.at + moved->bytes;
  const auto there = read_mappings(at, at + page_size());
  if (!there || (!there->empty() && !there->front().shared)) return false;
  unmap(rest.staging + moved->bytes, page_size());
  drop_front(rest, moved->bytes + page_size());
  if (rest.length == 0) work.erase(work.begin());
  return true;
}

}  // namespace

void ForkCopies::choose(const Mapping& mapping, const PageArena& arena, const PageCounts& whole, bool leave_out) {
  const auto run = [&](uintptr_t first, uintptr_t end) {
    return Run{.first = first,
               .length = end - first,
               .protection = mapping.protection,
               .fd = arena.fd(),
               .offset = mapping.offset_of(first),
               .device = arena.device(),
               .inode = arena.inode()};
  };
  Intervals of_ranges, others;
  others.add(mapping.first, mapping.end);
  for (const auto& [first, end] : whole.within(mapping.first, mapping.end)) {
    of_ranges.add(round_up(first, arena.page()), round_down(end, arena.page()));
  }
  if (arena.page() == page_size()) {
    remove_around(of_ranges, word_of(__builtin_frame_address(0)), kFramesBelow, kFramesAbove);
    const uintptr_t thread = word_of(__builtin_thread_pointer());
    if (!of_ranges.within(thread, thread + 1).empty()) remove_around(of_ranges, thread, kThreadBelow, kThreadAbove);
    for (uintptr_t heap = round_up(mapping.first, kMallocHeap); heap < mapping.end; heap += kMallocHeap) {
      of_ranges.remove(heap, heap + page_size());
    }
  }
  if (!leave_out && arena.page() == page_size()) remove_thread_blocks(of_ranges, mapping.first);
  for (const auto& [first, end] : of_ranges.all()) {
    others.remove(first, end);
    if (!leave_out) copied_.push_back(run(first, end));
  }
  // The child copies other parts of huge pages, too: the C library keeps nothing there, and making them private would
  // need as many huge pages again.
  auto& rest = arena.page() == page_size() ? private_ : copied_;
  for (const auto& [first, end] : others.all()) rest.push_back(run(first, end));
}

void ForkCopies::before(const std::vector<Mapping>& mappings, const MovedPages& pages, const PageCounts& whole,
                        bool leave_out) {
  copied_.clear();
  private_.clear();
  for (const Mapping& mapping : mappings) {
    if (const PageArena* arena = pages.arena_of(mapping)) choose(mapping, *arena, whole, leave_out);
  }
  make_private();
  if (!copied_.empty() && ::pipe2(child_done_, O_CLOEXEC) != 0) child_done_[0] = child_done_[1] = -1;
}

void ForkCopies::make_private() {
  std::vector<Replacement> work;
  for (Run& run : private_) {
    const uintptr_t staging = map_private(run.length, PROT_READ | PROT_WRITE);
    run.base = map_private(run.length, PROT_READ | PROT_WRITE);
    if (staging == 0 || run.base == 0) {
      unmap(staging, run.length);
      unmap(std::exchange(run.base, 0), run.length);
      break;
    }
    work.push_back({.at = run.first,
                    .length = run.length,
                    .staging = staging,
                    .protection = run.protection,
                    .base = run.base,
                    .keep_base = true,
                    .file = run.fd,
                    .offset = run.offset,
                    .device = run.device,
                    .inode = run.inode});
  }
  const auto moved = replace_pages(work, PageKind::protectable, page_size());
  const std::size_t done = moved ? moved->runs : 0;
  for (std::size_t i = done; i < private_.size(); ++i) {  // not made private: the child copies these
    Run rest = private_[i];
    const std::size_t bytes = i == done && i < work.size() && moved ? moved->bytes : 0;
    if (i < work.size()) {
      unmap(work[i].staging + bytes, rest.length - bytes);
      unmap(rest.base + bytes, rest.length - bytes);
    }
    private_[i].length = bytes;
    rest.first += bytes;
    rest.offset += bytes;
    rest.length -= bytes;
    rest.base = 0;
    copied_.push_back(rest);
  }
  std::erase_if(private_, [](const Run& run) { return run.length == 0; });
}

void ForkCopies::make_shared() {
  std::vector<Replacement> work;
  std::list<Addresses> parks;
  for (const Run& run : private_) {
    void* staging =
        ::mmap(nullptr, run.length, PROT_READ | PROT_WRITE, MAP_SHARED, run.fd, static_cast<off_t>(run.offset));
    if (staging == MAP_FAILED) break;
    const Addresses& park = parks.emplace_back(map_private(run.length, PROT_NONE), run.length);
    if (park.at() == 0) break;
    work.push_back({.at = run.first,
                    .length = run.length,
                    .staging = word_of(staging),
                    .protection = run.protection,
                    .base = run.base,
                    .park = park.at()});
  }
  const bool prepared = work.size() == private_.size();
  while (prepared && !work.empty() && put(work)) {
  }
  if (!prepared || !work.empty()) {
    constexpr char kText[] = "uroce: cannot share registered memory again after fork(): out of memory\n";
    give_up(kText, sizeof(kText) - 1);
  }
}

void ForkCopies::wait_for_child() {
  if (child_done_[0] < 0) return;
  ::close(std::exchange(child_done_[1], -1));
  std::size_t bytes = 0;
  for (const Run& run : copied_) bytes += run.length;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(5 + bytes / (std::size_t{256} << 20));
  pollfd done{.fd = child_done_[0], .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || ::poll(&done, 1, static_cast<int>(left)) > 0) return;
  }
}

void ForkCopies::in_parent() {
  wait_for_child();
  make_shared();
  end();
}

// The bytes come from the memfd, and go only where its pages still are: another thread of the parent may have unmapped
// them before fork().
void ForkCopies::copy_here(const Run& run, int maps) const {
  const uintptr_t end = run.first + run.length;
  for (uintptr_t at = run.first, next = end; at < end; at = next) {
    Place place{run.first, end, run.offset, run.device, run.inode};
    if (maps >= 0 && find_place(maps, at, place) == ENOENT) return;
    const bool covered = place.first <= at;
    next = std::min(end, covered ? place.end : place.first);
    const uint64_t offset = run.offset + (at - run.first);
    const bool in_place = covered && place.inode == run.inode && place.device == run.device &&
                          place.offset + (at - place.first) == offset;
    if (!in_place) continue;
    const std::size_t length = next - at;
    const uintptr_t copy = map_private(length, PROT_READ | PROT_WRITE);
    const bool filled = copy != 0 && read_file(run.fd, offset, copy, length);
    const bool protectable = filled && ::mprotect(memory_at(copy), length, run.protection) == 0;
    const long put = raw_syscall(SYS_mremap, copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    if (protectable && static_cast<uintptr_t>(put) == at) continue;
    constexpr char kText[] = "uroce: cannot copy registered memory into a child of fork(): out of memory\n";
    give_up(kText, sizeof(kText) - 1);
  }
}

void ForkCopies::in_child() {
  constexpr char kMaps[] = "/proc/self/maps";
  const auto maps = static_cast<int>(
      raw_syscall(SYS_openat, static_cast<uintptr_t>(AT_FDCWD), word_of(&kMaps[0]), O_RDONLY | O_CLOEXEC));
  for (const Run& run : copied_) copy_here(run, maps);
  if (maps >= 0) raw_syscall(SYS_close, static_cast<uintptr_t>(maps));
  if (child_done_[1] >= 0) (void)!::write(child_done_[1], "", 1);
  end();
}

void ForkCopies::end() {
  for (const Run& run : private_) unmap(run.base, run.length);
  for (int& fd : child_done_) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  copied_.clear();
  private_.clear();
}

}  // namespace uroce::sharing
