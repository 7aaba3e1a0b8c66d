#include "sharing/sharing.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/no_cancel.h"
#include "sharing/fork_copies.h"
#include "sharing/mapped_files.h"
#include "sharing/mappings.h"
#include "sharing/moved_pages.h"
#include "sharing/page_guard.h"
#include "sharing/page_intervals.h"
#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

/// Costs: a run of pages to be moved is as so many pages, and a page as so many mappings to be looked at.
constexpr std::size_t kMovedPagesOfARun = 8, kMappingsPerMovedPage = 8;

/// The mappings that cover [first, end): indices [from, to). Error: EFAULT, EOPNOTSUPP.
Result<std::pair<std::size_t, std::size_t>> find_mappings(const std::vector<Mapping>& mappings, uintptr_t first,
                                                          uintptr_t end, bool writable) {
  const auto from = std::ranges::find_if(mappings, [&](const Mapping& mapping) { return mapping.end > first; });
  auto to = from;
  for (uintptr_t at = first; at < end; at = to->end, ++to) {
    if (to == mappings.end() || to->first > at) {
      return fail(EFAULT,
                  fmt::format("cannot share the pages {:#x}-{:#x}: nothing is mapped at {:#x}", first, end, at));
    }
    const bool named = to->path.starts_with('[');
    if (named && to->path != "[heap]" && !to->path.starts_with("[stack") && !to->path.starts_with("[anon")) {
      return fail(EOPNOTSUPP,
                  fmt::format("cannot share {}: it belongs to the kernel; register other memory", to->name()));
    }
    if ((to->protection & PROT_READ) == 0)
      return fail(EFAULT, fmt::format("cannot share {}: it is not readable", to->name()));
    if (writable && (to->protection & PROT_WRITE) == 0) {
      return fail(
          EFAULT,
          fmt::format("cannot share {} for writing: it is not writable; register it without write access", to->name()));
    }
  }
  return std::pair(static_cast<std::size_t>(from - mappings.begin()), static_cast<std::size_t>(to - mappings.begin()));
}

/// The files that one call has opened.
using OpenFiles = std::map<MappedFiles::Key, FileDescriptor>;

void append(std::vector<SharedSegment>& segments, const SharedSegment& next) {
  if (!segments.empty()) {
    SharedSegment& last = segments.back();
    if (last.fd == next.fd && last.offset + last.length == next.offset) {
      last.length += next.length;
      return;
    }
  }
  segments.push_back(next);
}

}  // namespace

struct Sharing::Impl {
  std::mutex mutex;
  MovedPages moved;
  MappedFiles files;
  std::map<std::pair<uintptr_t, uintptr_t>, std::size_t>
      ranges;               ///< registered ranges with moved pages, and how many times each
  Intervals whole;          ///< moved pages that hold only bytes of registered ranges
  std::size_t longest = 0;  ///< bytes of the longest range so far
  bool leave_out = false;
  ForkCopies copies;
  std::size_t moved_since_sweep = 0;  ///< see sweep_if_due()
  std::size_t mappings_at_sweep = 0;

  /// Moves the private pages. False where there are none. Errors: as share().
  Result<bool> move_private(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end, bool writable);
  Result<std::vector<SharedSegment>> segments_of(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end,
                                                 bool writable);
  Result<SharedSegment> segment_of(const Mapping& mapping, uintptr_t first, uintptr_t end, bool writable,
                                   OpenFiles& opened);
  Result<void> sweep_if_due();
  void forget_gone(const std::vector<Mapping>& mappings);
  void note_whole(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end);
  void unnote_whole(uintptr_t first, uintptr_t end);
  void apply_leave_out(const Intervals::List& pages) const;

  static inline Impl* of_this_process = nullptr;
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
};

Result<bool> Sharing::Impl::move_private(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end,
                                         bool writable) {
  const auto covering = find_mappings(mappings, first, end, writable);
  if (!covering) return std::unexpected(covering.error());
  bool any = false;
  for (std::size_t index = covering->first; index < covering->second; ++index) {
    const Mapping& mapping = mappings[index];
    if (mapping.shared) continue;
    const uintptr_t from = std::max(first, mapping.first), to = std::min(end, mapping.end);
    any = true;
    moved_since_sweep += kMovedPagesOfARun + (to - from) / page_size();
    whole.remove(from, to);  // of memory that was there before and is gone
    if (auto done = moved.move(mapping, from, to); !done) return std::unexpected(done.error());
  }
  return any;
}

Result<SharedSegment> Sharing::Impl::segment_of(const Mapping& mapping, uintptr_t first, uintptr_t end, bool writable,
                                                OpenFiles& opened) {
  if (!mapping.shared) return fail(EFAULT, fmt::format("{} changed while it was being shared", mapping.name()));
  if (const PageArena* arena = moved.arena_of(mapping))
    return SharedSegment{arena->fd(), mapping.offset_of(first), end - first, {}};
  const auto device = may_be_device(mapping) ? read_details(mapping) : Result<MappingDetails>{};
  if (!device) return std::unexpected(device.error());
  if (device->device)
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  FileDescriptor& file = opened[{mapping.device, mapping.inode}];
  if (file.get() < 0) {
    auto fd = files.open(mapping, writable);
    if (!fd) return std::unexpected(fd.error());
    file = std::move(*fd);
  }
  return SharedSegment{file.get(), mapping.offset_of(first), end - first, file};
}

Result<std::vector<SharedSegment>> Sharing::Impl::segments_of(const std::vector<Mapping>& mappings, uintptr_t first,
                                                              uintptr_t end, bool writable) {
  const auto covering = find_mappings(mappings, first, end, writable);
  if (!covering) return std::unexpected(covering.error());
  std::vector<SharedSegment> segments;
  OpenFiles opened;
  for (std::size_t index = covering->first; index < covering->second; ++index) {
    const Mapping& mapping = mappings[index];
    const auto segment =
        segment_of(mapping, std::max(first, mapping.first), std::min(end, mapping.end), writable, opened);
    if (!segment) return std::unexpected(segment.error());
    append(segments, *segment);
  }
  return segments;
}

// Pages that the program has unmapped are found among all its mappings. So look rarely: the look costs as much as all
// registrations since the last one have moved, and at most that much memory waits to be freed.
Result<void> Sharing::Impl::sweep_if_due() {
  if (moved_since_sweep * kMappingsPerMovedPage <= mappings_at_sweep) return {};
  const auto mappings = read_mappings();
  if (!mappings) return std::unexpected(mappings.error());
  forget_gone(*mappings);
  return {};
}

void Sharing::Impl::forget_gone(const std::vector<Mapping>& mappings) {
  moved_since_sweep = 0;
  mappings_at_sweep = mappings.size();
  moved.keep_only(mappings);
  Intervals still;
  for (const Mapping& mapping : mappings) {
    if (moved.arena_of(mapping) == nullptr) continue;
    for (const auto& [first, end] : whole.within(mapping.first, mapping.end)) still.add(first, end);
  }
  whole = std::move(still);
  std::erase_if(ranges, [&](const auto& range) { return whole.within(range.first.first, range.first.second).empty(); });
}

void Sharing::Impl::note_whole(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end) {
  for (const Mapping& mapping : mappings) {
    const PageArena* arena = moved.arena_of(mapping);
    if (arena == nullptr) {  // moved pages may have been here before
      whole.remove(std::max(first, mapping.first), std::min(end, mapping.end));
      continue;
    }
    const auto from = std::max(round_up(first, arena->page()), mapping.first);
    whole.add(from, std::max(from, std::min(round_down(end, arena->page()), mapping.end)));
  }
  const Intervals::List pages = whole.within(first, end);
  if (!pages.empty()) ++ranges[{first, end}];
  longest = std::max(longest, end - first);
  if (leave_out) apply_leave_out(pages);
}

void Sharing::Impl::apply_leave_out(const Intervals::List& pages) const {
  for (const auto& [first, end] : pages) {
    ::madvise(memory_at(first), end - first, MADV_DONTFORK);  // fails for unmapped pages, which need none
  }
}

// Hold the lock across fork(), so that no page is half moved in the child.
void Sharing::Impl::before_fork() {
  Impl& impl = *of_this_process;
  impl.mutex.lock();
  if (const auto mappings = read_mappings()) {
    impl.forget_gone(*mappings);
    impl.copies.before(*mappings, impl.moved, impl.whole, impl.leave_out);
  }
}

void Sharing::Impl::after_fork_in_parent() {
  Impl& impl = *of_this_process;
  impl.copies.in_parent();
  if (impl.leave_out) impl.apply_leave_out(impl.whole.all());
  impl.mutex.unlock();
}

void Sharing::Impl::after_fork_in_child() {
  Impl& impl = *of_this_process;
  impl.copies.in_child();
  PageGuard::forget();
  impl.moved.forget_all();
  impl.files.forget_all();
  impl.whole.clear();
  impl.mutex.unlock();
}

Sharing::Sharing() : impl_(std::make_unique<Impl>()) {
  Impl::of_this_process = impl_.get();
  ::pthread_atfork(Impl::before_fork, Impl::after_fork_in_parent, Impl::after_fork_in_child);
}

Sharing& Sharing::of_this_process() {
  static Sharing* const kSharing = new Sharing;  // never destroyed: threads may use it while the process ends
  return *kSharing;
}

Result<std::vector<SharedSegment>> Sharing::share(void* address, std::size_t length, bool writable) {
  const NoCancel guard;
  if (length == 0) return std::vector<SharedSegment>{};
  const uintptr_t at = word_of(address);
  if (at + length < at || at + length > round_down(UINTPTR_MAX, page_size())) {
    return fail(EFAULT,
                fmt::format("cannot share {} bytes at {:#x}: they go beyond the end of the address space", length, at));
  }
  const uintptr_t first = round_down(at, page_size()), end = round_up(at + length, page_size());
  const std::lock_guard lock(impl_->mutex);
  if (auto swept = impl_->sweep_if_due(); !swept) return std::unexpected(std::move(swept.error()));
  auto mappings = read_mappings(first, end);
  if (!mappings) return std::unexpected(std::move(mappings.error()));
  const auto moved = impl_->move_private(*mappings, first, end, writable);
  if (!moved) return std::unexpected(moved.error());
  if (*moved) mappings = read_mappings(first, end);
  if (!mappings) return std::unexpected(std::move(mappings.error()));
  auto segments = impl_->segments_of(*mappings, first, end, writable);
  if (segments) impl_->note_whole(*mappings, at, at + length);
  return segments;
}

void Sharing::Impl::unnote_whole(uintptr_t first, uintptr_t end) {
  const auto range = ranges.find({first, end});
  if (range == ranges.end() || --range->second > 0) return;
  ranges.erase(range);
  Intervals rest;
  for (const auto& [from, to] : whole.within(first, end)) rest.add(from, to);
  const uintptr_t lowest = first - std::min<uintptr_t>(first, longest);  // of a range that reaches here
  for (auto at = ranges.lower_bound({lowest, 0}); at != ranges.end() && at->first.first < end; ++at) {
    const auto& other = at->first;
    for (const auto& [from, to] : whole.within(other.first, other.second)) {
      const std::size_t page = page_size();  // a page with bytes of two ranges belongs to neither alone
      rest.remove(std::max(from, round_up(other.first, page)), std::min(to, round_down(other.second, page)));
    }
  }
  for (const auto& [from, to] : rest.all()) {
    whole.remove(from, to);
    if (leave_out) ::madvise(memory_at(from), to - from, MADV_DOFORK);
  }
}

void Sharing::done_with(void* address, std::size_t length) {
  const NoCancel guard;
  const std::lock_guard lock(impl_->mutex);
  impl_->unnote_whole(word_of(address), word_of(address) + length);
}

void Sharing::leave_out_of_children() {
  const std::lock_guard lock(impl_->mutex);
  impl_->leave_out = true;
  if (const auto mappings = read_mappings()) impl_->forget_gone(*mappings);
  impl_->apply_leave_out(impl_->whole.all());
}

}  // namespace uroce::sharing
