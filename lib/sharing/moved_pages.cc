#include "sharing/moved_pages.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sharing/addresses.h"
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

/// Maps a part of a file, readable and writable, at an address equal to `like` modulo `unit`. 0 with errno.
uintptr_t map_like(uintptr_t like, std::size_t unit, std::size_t length, int fd, uint64_t offset) {
  if (unit == page_size()) {
    void* const at =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
    return at == MAP_FAILED ? 0 : word_of(at);
  }
  const std::size_t more = unit - page_size();
  const uintptr_t start = map_private(length + more, PROT_NONE);
  if (start == 0) return 0;
  const uintptr_t at = start + ((like - start) & (unit - 1)), end = start + length + more;
  if (at != start) ::munmap(memory_at(start), at - start);
  if (at + length != end) ::munmap(memory_at(at + length), end - at - length);
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(memory_at(at), length, PROT_READ | PROT_WRITE, kFlags, fd, static_cast<off_t>(offset)) != MAP_FAILED)
    return at;
  const int code = errno;
  ::munmap(memory_at(at), length);
  errno = code;
  return 0;
}

// Private pages of a tmpfs or hugetlbfs file can be write-protected; other files cannot be watched.
Result<Moved> replace(const Replacement& run, const Mapping& mapping, std::size_t page) {
  if (mapping.inode == 0) return replace_pages({&run, 1}, PageKind::anonymous, page);
  auto moved = replace_pages({&run, 1}, PageKind::protectable, page);
  const bool refused = moved ? moved->error == EINVAL && moved->step == std::string_view("watching the pages")
                             : moved.error().code == EOPNOTSUPP;
  if (!refused) return moved;
  const bool writable = (mapping.protection & PROT_WRITE) != 0;
  return replace_pages({&run, 1}, writable ? PageKind::private_file : PageKind::unguarded, page);
}

// Memory that was never stored to has no identity for the kernel yet (anon_vma), and would get another one in the park.
// Then it could not become one mapping with its neighbours again.
void keep_mergeable(const Mapping& mapping, uintptr_t first) {
  if ((mapping.protection & PROT_WRITE) != 0) (void)populate(first, page_size(), Populate::write);
}

// A write beyond the limit would end the process with SIGXFSZ.
bool can_write_up_to(uint64_t end) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  return end <= limit.rlim_cur;
}

// Memory without an inode is neither device memory nor hugetlbfs.
Result<std::size_t> page_of(const Mapping& mapping) {
  if (mapping.inode == 0) return page_size();
  const auto details = read_details(mapping);
  if (!details) return std::unexpected(details.error());
  if (details->device)
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  return details->page;
}

}  // namespace

const PageArena* MovedPages::arena_of(const Mapping& mapping) const {
  for (const PageArena& arena : arenas_) {
    if (mapping.shared && arena.inode() == mapping.inode && arena.device() == mapping.device) return &arena;
  }
  return nullptr;
}

Result<PageArena*> MovedPages::arena_for(std::size_t page, std::size_t length) {
  for (PageArena& arena : arenas_) {
    if (arena.page() == page && arena.has_room(length)) return &arena;
  }
  auto arena = PageArena::create(page);
  if (!arena) return std::unexpected(std::move(arena.error()));
  return &arenas_.emplace_back(std::move(*arena));
}

Result<void> MovedPages::move(const Mapping& mapping, uintptr_t first, uintptr_t end) {
  const auto page = page_of(mapping);
  if (!page) return std::unexpected(page.error());
  first = round_down(first, *page);
  const std::size_t length = round_up(end, *page) - first;
  if (auto stack = keep_growing(mapping, first); !stack) return stack;

  auto arena = arena_for(*page, length);
  if (!arena) return std::unexpected(std::move(arena.error()));
  const auto offset = (*arena)->allocate(length, first);
  if (!offset) return std::unexpected(offset.error());
  const bool parks = mapping.inode == 0;
  const std::size_t unit = std::max(*page, length >= kHugePage ? kHugePage : 0);
  Addresses staging(map_like(first, unit, length, (*arena)->fd(), *offset), length);
  Addresses park(parks ? map_private(length, PROT_NONE) : 0, length);
  if (staging.at() == 0 || (parks && park.at() == 0)) {
    const int code = errno;
    (*arena)->free(*offset, *offset + length);
    return fail(code, fmt::format("cannot map another {} bytes to share memory: errno {}", length, code));
  }
  if (parks) keep_mergeable(mapping, first);
  const auto moved = replace({.at = first,
                              .length = length,
                              .staging = staging.at(),
                              .protection = mapping.protection,
                              .zero_where_missing = mapping.inode == 0,
                              .fresh_file = true,
                              .into = *page == page_size() && can_write_up_to(*offset + length) ? (*arena)->fd() : -1,
                              .into_offset = *offset,
                              .park = park.at()},
                             mapping, *page);
  const std::size_t done = !moved ? 0 : moved->runs == 1 ? length : moved->bytes;
  if (done != 0) {
    note(first, {.end = first + done,
                 .arena = *arena,
                 .offset = *offset,
                 .park = park.at(),
                 .park_has_pages = parks,
                 .protection = mapping.protection});
    staging.give(done);
    park.give(done);
  }
  if (done != length) (*arena)->free(*offset + done, *offset + length);
  if (!moved) return std::unexpected(moved.error());
  if (moved->error != 0) return cannot_move(*moved, mapping);
  return {};
}

}  // namespace uroce::sharing
