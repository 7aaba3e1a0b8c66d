// The records of moved pages, and the way back to private memory.
#include <algorithm>
#include <iterator>
#include <utility>

#include <sys/mman.h>

#include "sharing/addresses.h"
#include "sharing/moved_pages.h"
#include "sharing/page_mover.h"

namespace uroce::sharing {
namespace {

/// Old pages that may stay in the parks. They save the allocation of new ones when the pages go back.
constexpr std::size_t kMostParked = std::size_t{4} << 20;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kDropLocked = 24;  // MADV_DONTNEED_LOCKED, Linux 5.18: mlockall(2) locks the pages

bool is_in_place(const Mapping& mapping, uintptr_t at, uint64_t offset) {
  return mapping.first <= at && at < mapping.end && mapping.offset_of(at) == offset;
}

}  // namespace

MovedPages::Runs::iterator MovedPages::split(Runs::iterator at, uintptr_t address) {
  if (address <= at->first || address >= at->second.end) return at;
  Run rest = at->second;
  const uint64_t before = address - at->first;
  rest.offset += before;
  if (rest.park != 0) rest.park += before;
  at->second.end = address;
  return runs_.emplace_hint(std::next(at), address, rest);
}

/// The first record that ends above `first`, cut so that it begins there at the lowest.
MovedPages::Runs::iterator MovedPages::from(uintptr_t first) {
  auto at = runs_.upper_bound(first);
  if (at == runs_.begin() || std::prev(at)->second.end <= first) return at;
  return split(std::prev(at), first);
}

void MovedPages::note(uintptr_t first, Run run) {
  for (auto at = from(first); at != runs_.end() && at->first < run.end; at = from(first)) {
    split(at, run.end);
    lose(at);  // the program has mapped other memory there
  }
  if (run.park != 0) {
    parked_ += run.end - first;
    if (parked_ > kMostParked) empty_park(first, run);
  }
  runs_.emplace(first, run);
}

void MovedPages::empty_park(uintptr_t first, Run& run) {
  const std::size_t length = run.end - first;
  if (::madvise(memory_at(run.park), length, MADV_DONTNEED) != 0 &&
      ::madvise(memory_at(run.park), length, kDropLocked) != 0) {
    return;
  }
  run.park_has_pages = false;
  parked_ -= length;
}

void MovedPages::lose(Runs::iterator at) {
  const auto& [first, run] = *at;
  const std::size_t length = run.end - first;
  if (run.park != 0) ::munmap(memory_at(run.park), length);
  if (run.park_has_pages) parked_ -= length;
  strays_.push_back({run.arena, run.offset, run.offset + length});
  runs_.erase(at);
}

std::size_t MovedPages::astray() const {
  std::size_t bytes = 0;
  for (const Stray& stray : strays_) bytes += stray.end - stray.first;
  return bytes;
}

Intervals::List MovedPages::within(uintptr_t first, uintptr_t end) const {
  Intervals::List parts;
  auto at = runs_.upper_bound(first);
  if (at != runs_.begin()) --at;
  for (; at != runs_.end() && at->first < end; ++at) {
    const std::size_t page = at->second.arena->page();
    const uintptr_t from = round_up(std::max(first, at->first), page);
    const uintptr_t to = round_down(std::min(end, at->second.end), page);
    if (from < to) parts.emplace_back(from, to);
  }
  return parts;
}

void MovedPages::put_back(Runs::iterator at, int protection) {
  const uintptr_t first = at->first;
  Run& run = at->second;
  const std::size_t length = run.end - first;
  if (run.park != 0) ::madvise(memory_at(run.park), length, MADV_DOFORK);
  if (run.park != 0 && run.protection != kReadWrite) {
    if (::mprotect(memory_at(run.park), length, kReadWrite) != 0) return;
    run.protection = kReadWrite;
  }
  Addresses fresh(run.park == 0 ? map_private(length, kReadWrite) : 0, length);
  const uintptr_t staging = run.park != 0 ? run.park : fresh.at();
  if (staging == 0) return;
  const Addresses view(run.park_has_pages ? 0 : run.arena->map(run.offset, length), length);
  const Replacement work{.at = first,
                         .length = length,
                         .staging = staging,
                         .protection = protection,
                         .view = view.at(),
                         .file = run.arena->fd(),
                         .offset = run.offset,
                         .device = run.arena->device(),
                         .inode = run.arena->inode(),
                         .skip_zeros = view.at() != 0,
                         .has_pages = run.park_has_pages};
  const auto moved = replace_pages({&work, 1}, PageKind::protectable, page_size());
  const std::size_t done = !moved ? 0 : moved->runs == 1 ? length : moved->bytes;
  if (done == 0) return;
  if (fresh.at() != 0) fresh.give(done);
  if (run.park_has_pages) parked_ -= done;
  run.arena->free(run.offset, run.offset + done);
  split(at, first + done);
  runs_.erase(at);
}

/// Loses the parts of records in [first, end) whose pages are no longer mapped there.
void MovedPages::lose_gone(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end) {
  for (auto at = from(first); at != runs_.end() && at->first < end;) {
    split(at, end);
    const uintptr_t here = at->first;
    const auto mapping = std::ranges::find_if(mappings, [here](const Mapping& one) { return one.end > here; });
    const bool covered = mapping != mappings.end() && mapping->first <= here;
    const bool in_place =
        covered && arena_of(*mapping) == at->second.arena && is_in_place(*mapping, here, at->second.offset);
    uintptr_t until = at->second.end;
    if (mapping != mappings.end()) until = std::min(until, covered ? mapping->end : mapping->first);
    split(at, until);
    const auto next = std::next(at);
    if (!in_place) lose(at);
    at = next;
  }
}

void MovedPages::give_back(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end) {
  lose_gone(mappings, first, end);
  for (auto at = from(first); at != runs_.end() && at->first < end;) {
    split(at, end);
    const auto next = std::next(at);
    const uintptr_t here = at->first;
    const auto mapping = std::ranges::find_if(mappings, [here](const Mapping& one) { return one.end > here; });
    // Huge pages would need as many again.
    if (at->second.arena->page() == page_size()) put_back(at, mapping->protection);
    at = next;
  }
  close_full_arenas();
}

/// Pages of [first, end) in the arena that the program has put elsewhere, in `mapping`.
void MovedPages::adopt(const Mapping& mapping, PageArena& arena, uint64_t first, uint64_t end, const PageCounts& held) {
  const uintptr_t at = mapping.first + (first - mapping.offset), until = at + (end - first);
  note(at, {.end = until, .arena = &arena, .offset = first});
  if (!held.within(at, until).empty() || arena.page() != page_size()) return;
  put_back(runs_.find(at), mapping.protection);
}

void MovedPages::sweep(const std::vector<Mapping>& mappings, const PageCounts& held) {
  for (const Stray& stray : std::exchange(strays_, {})) {
    uint64_t free_from = stray.first;
    std::vector<std::pair<uint64_t, const Mapping*>> places;
    for (const Mapping& mapping : mappings) {
      if (arena_of(mapping) != stray.arena) continue;
      const uint64_t first = std::max(stray.first, mapping.offset);
      if (first < std::min(stray.end, mapping.offset_of(mapping.end))) places.emplace_back(first, &mapping);
    }
    std::ranges::sort(places);
    for (const auto& [from, mapping] : places) {  // overlaps occur: mremap(2) can map the same pages twice
      const uint64_t first = std::max(from, free_from), end = std::min(stray.end, mapping->offset_of(mapping->end));
      if (first >= end) continue;
      if (first > free_from) stray.arena->free(free_from, first);
      adopt(*mapping, *stray.arena, first, end, held);
      free_from = end;
    }
    if (free_from < stray.end) stray.arena->free(free_from, stray.end);
  }
  close_full_arenas();
}

// One that has room is kept for the next registration.
void MovedPages::close_full_arenas() {
  arenas_.remove_if([](const PageArena& arena) { return arena.used() == 0 && !arena.has_room(kHugePage); });
}

// The parks are left out of children.
void MovedPages::forget_all() {
  runs_.clear();
  strays_.clear();
  arenas_.clear();
  parked_ = 0;
}

}  // namespace uroce::sharing
