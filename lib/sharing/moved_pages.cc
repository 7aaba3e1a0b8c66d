#include "sharing/moved_pages.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sharing/fresh_pages.h"
#include "sharing/page_mover.h"
#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kStackGap = std::size_t{2} << 20;  // the kernel's own is 1 MiB (stack_guard_gap)

bool is_stack(const std::vector<Mapping>& mappings, std::size_t index) {
  for (; mappings[index].path != "[stack]"; ++index) {
    if (index + 1 == mappings.size() || mappings[index + 1].first != mappings[index].end) return false;
  }
  return true;
}

/// False far from the main thread's stack, whose mappings then need not be looked for. Linux leaves room for the stack
/// above other mappings: RLIMIT_STACK, and 128 MiB at least.
bool may_be_stack(uintptr_t address, const rlimit& limit) {
  constexpr std::size_t kLeastRoom = std::size_t{128} << 20, kUnlimited = std::size_t{1} << 40;
  const uintptr_t top = ::getauxval(AT_RANDOM);  // lies above the first frame
  const std::size_t room = limit.rlim_cur == RLIM_INFINITY ? kUnlimited : std::max(limit.rlim_cur, kLeastRoom);
  return address <= top && top - address <= room;
}

// The kernel grows the main thread's stack below its lowest page. If that page moved, the stack could not grow any
// more.
Result<void> keep_growing(const Mapping& stack, uintptr_t first) {
  rlimit limit{};
  ::getrlimit(RLIMIT_STACK, &limit);
  if (first != stack.first || !may_be_stack(first, limit)) return {};
  const auto mappings = read_mappings();
  if (!mappings) return std::unexpected(mappings.error());
  const auto here = std::ranges::find(*mappings, first, &Mapping::first);
  const auto index = static_cast<std::size_t>(here - mappings->begin());
  if (here == mappings->end() || !is_stack(*mappings, index)) return {};
  const uintptr_t below = index == 0 ? 0 : (*mappings)[index - 1].end;
  if (below == first) return {};
  if (stack.end - first + page_size() > limit.rlim_cur || below + kStackGap > first) {
    return fail(EOPNOTSUPP,
                fmt::format("cannot share {}: its lowest page must stay private, and the stack cannot grow below "
                            "{:#x}; raise the limit "
                            "RLIMIT_STACK",
                            stack.name(), first));
  }
  (void)*static_cast<volatile const char*>(memory_at(first - 1));
  return {};
}

std::unexpected<Error> cannot_move(const Moved& moved, const Mapping& mapping) {
  const std::string_view step = moved.step;
  if (step == "allocating shared pages") {
    return fail(ENOMEM,
                fmt::format("cannot share {}: no memory for its new pages: errno {}", mapping.name(), moved.error));
  }
  if (step == "watching the pages" && (moved.error == EINVAL || moved.error == EBUSY)) {
    return fail(EOPNOTSUPP,
                fmt::format("cannot share {}: userfaultfd refuses it ({})", mapping.name(),
                            moved.error == EBUSY ? "another userfaultfd watches it" : "unsupported kind of memory"));
  }
  return fail(moved.error, fmt::format("cannot share {}: {} failed with errno {}", mapping.name(), step, moved.error));
}

/// The new mapping, before it is in place. The destructor unmaps the part that was not used.
struct Staging {
  uintptr_t at = 0;
  std::size_t length = 0;
  ~Staging() {
    if (length != 0) ::munmap(memory_at(at), length);
  }
};

/// Maps a part of a file, readable and writable, at an address equal to `like` modulo `unit`. 0 with errno.
uintptr_t map_like(uintptr_t like, std::size_t unit, std::size_t length, int fd, uint64_t offset) {
  const std::size_t more = unit - page_size();
  void* const room = ::mmap(nullptr, length + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return 0;
  const uintptr_t start = word_of(room), at = start + ((like - start) & (unit - 1)), end = start + length + more;
  if (at != start) ::munmap(room, at - start);
  if (at + length != end) ::munmap(memory_at(at + length), end - at - length);
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(memory_at(at), length, PROT_READ | PROT_WRITE, kFlags, fd, static_cast<off_t>(offset)) != MAP_FAILED)
    return at;
  const int code = errno;
  ::munmap(memory_at(at), length);
  errno = code;
  return 0;
}

Result<Moved> replace(const Replacement& run, const Mapping& mapping, std::size_t page) {
  auto moved = replace_pages({&run, 1}, PageKind::anonymous, page);
  const bool refused = moved && moved->error == EINVAL && moved->step == std::string_view("watching the pages");
  if (!refused || mapping.inode == 0) return moved;
  const bool writable = (mapping.protection & PROT_WRITE) != 0;
  return replace_pages({&run, 1}, writable ? PageKind::private_file : PageKind::unguarded, page);
}

}  // namespace

const PageArena* MovedPages::arena_of(const Mapping& mapping) const {
  for (const PageArena& arena : arenas_) {
    if (mapping.shared && arena.inode() == mapping.inode && arena.device() == mapping.device) return &arena;
  }
  return nullptr;
}

Result<PageArena*> MovedPages::arena_for(std::size_t page) {
  for (PageArena& arena : arenas_) {
    if (arena.page() == page) return &arena;
  }
  auto arena = PageArena::create(page);
  if (!arena) return std::unexpected(std::move(arena.error()));
  return &arenas_.emplace_back(std::move(*arena));
}

Result<void> MovedPages::move(const Mapping& mapping, uintptr_t first, uintptr_t end) {
  MappingDetails details{.page = page_size(), .device = false};
  if (mapping.inode != 0) {  // memory without an inode is neither device memory nor hugetlbfs
    auto read = read_details(mapping);
    if (!read) return std::unexpected(std::move(read.error()));
    details = *read;
  }
  if (details.device)
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  first = round_down(first, details.page);
  const std::size_t length = round_up(end, details.page) - first;
  if (auto stack = keep_growing(mapping, first); !stack) return stack;

  auto arena = arena_for(details.page);
  if (!arena) return std::unexpected(std::move(arena.error()));
  const auto offset = (*arena)->allocate(length, first);
  if (!offset) return std::unexpected(offset.error());
  const std::size_t unit = std::max(details.page, length >= kHugePage ? kHugePage : 0);
  const uintptr_t at = map_like(first, unit, length, (*arena)->fd(), *offset);
  if (at == 0) return fail(errno, fmt::format("cannot map another {} bytes to share memory: errno {}", length, errno));
  Staging staging{at, length};
  const auto moved = replace({.at = first,
                              .length = length,
                              .staging = staging.at,
                              .protection = mapping.protection,
                              .zero_where_missing = mapping.inode == 0,
                              .fresh_file = true},
                             mapping, details.page);
  if (!moved) return std::unexpected(moved.error());
  const std::size_t done = moved->runs == 1 ? length : moved->bytes;
  staging.at += done;
  staging.length -= done;
  if (moved->error != 0) return cannot_move(*moved, mapping);
  return {};
}

void MovedPages::keep_only(const std::vector<Mapping>& mappings) {
  for (auto arena = arenas_.begin(); arena != arenas_.end();) {
    PageArena::Runs mapped;
    for (const Mapping& mapping : mappings) {
      if (arena_of(mapping) != &*arena) continue;
      mapped.emplace_back(mapping.offset, mapping.offset_of(mapping.end));
    }
    std::ranges::sort(mapped);
    PageArena::Runs disjoint;  // overlaps occur: mremap(2) can map the same pages twice
    for (const auto& run : mapped) {
      if (!disjoint.empty() && disjoint.back().second >= run.first) {
        disjoint.back().second = std::max(disjoint.back().second, run.second);
      } else {
        disjoint.push_back(run);
      }
    }
    arena->keep_only(disjoint);
    arena = mapped.empty() ? arenas_.erase(arena) : std::next(arena);
  }
}

}  // namespace uroce::sharing
