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
#include <unistd.h>

#include "base/no_cancel.h"
#include "sharing/fork_copies.h"
#include "sharing/mapped_files.h"
#include "sharing/mappings.h"
#include "sharing/moved_pages.h"
#include "sharing/page_counts.h"
#include "sharing/page_guard.h"
#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

/// With fewer mappings, a look at all of them is cheap. With more, a run of pages that was moved is as so many pages,
/// and a page as so many mappings.
constexpr std::size_t kFewMappings = 1000, kPagesOfARun = 8, kMappingsPerPage = 8;

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

/// A file of one call: open, or the mapping by which it is opened later.
struct CallFile {
  FileDescriptor descriptor;
  std::shared_ptr<const Mapping> unopened;
};
using CallFiles = std::map<MappedFiles::Key, CallFile>;

void append(std::vector<SharedSegment>& segments, const SharedSegment& next) {
  if (!segments.empty()) {
    SharedSegment& last = segments.back();
    if (last.fd == next.fd && last.unopened == next.unopened && last.offset + last.length == next.offset) {
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
  PageCounts held;   ///< registrations of each page
  PageCounts whole;  ///< as `held`, without pages that a registration holds in part
  bool leave_out = false;
  pid_t process = ::getpid();  ///< all of this is of
  ForkCopies copies;
  std::size_t mappings_at_sweep = 0;  ///< in the whole process
  std::size_t moved_since_sweep = 0;  ///< pages, and a constant for each run of them

  /// Moves the private pages. False where there are none. Errors: as share().
  Result<bool> move_private(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end, bool writable);
  Result<std::vector<SharedSegment>> segments_of(const std::vector<Mapping>& mappings, uintptr_t first, uintptr_t end,
                                                 bool writable);
  Result<SharedSegment> segment_of(const Mapping& mapping, uintptr_t first, uintptr_t end, bool writable,
                                   CallFiles& files_of_call);
  /// For a range that `held` and `whole` have already.
  Result<std::vector<SharedSegment>> share(uintptr_t at, uintptr_t until, bool writable);
  void release(uintptr_t first, uintptr_t end);
  void give_back(uintptr_t first, uintptr_t end);
  void sweep_if_due();
  void sweep(const std::vector<Mapping>& mappings);
  /// Whether children of fork() get the moved pages among `pages`.
  void advise(const Intervals::List& pages, int advice) const;

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
    moved_since_sweep += kPagesOfARun + (to - from) / page_size();
    if (auto done = moved.move(mapping, from, to); !done) return std::unexpected(done.error());
  }
  return any;
}

Result<SharedSegment> Sharing::Impl::segment_of(const Mapping& mapping, uintptr_t first, uintptr_t end, bool writable,
                                                CallFiles& files_of_call) {
  if (!mapping.shared) return fail(EFAULT, fmt::format("{} changed while it was being shared", mapping.name()));
  if (const PageArena* arena = moved.arena_of(mapping))
    return SharedSegment{arena->fd(), mapping.offset_of(first), end - first};
  const auto device = may_be_device(mapping) ? read_details(mapping) : Result<MappingDetails>{};
  if (!device) return std::unexpected(device.error());
  if (device->device)
    return fail(EOPNOTSUPP, fmt::format("cannot share {}: it is device memory; register other memory", mapping.name()));
  CallFile& file = files_of_call[{mapping.device, mapping.inode}];
  if (file.descriptor.get() < 0 && file.unopened == nullptr) {
    const std::size_t number = files_of_call.size();
    auto fd = number <= kFilesOpenAtOnce ? files.open(mapping, writable) : Result<FileDescriptor>{};
    if (!fd && (number == 1 || fd.error().code != EMFILE)) return std::unexpected(fd.error());
    if (fd) file.descriptor = std::move(*fd);
    if (file.descriptor.get() < 0) file.unopened = std::make_shared<const Mapping>(mapping);
  }
  return SharedSegment{file.descriptor.get(), mapping.offset_of(first), end - first, file.descriptor, file.unopened};
}

Result<std::vector<SharedSegment>> Sharing::Impl::segments_of(const std::vector<Mapping>& mappings, uintptr_t first,
                                                              uintptr_t end, bool writable) {
  const auto covering = find_mappings(mappings, first, end, writable);
  if (!covering) return std::unexpected(covering.error());
  std::vector<SharedSegment> segments;
  CallFiles files_of_call;
  for (std::size_t index = covering->first; index < covering->second; ++index) {
    const Mapping& mapping = mappings[index];
    const auto segment =
        segment_of(mapping, std::max(first, mapping.first), std::min(end, mapping.end), writable, files_of_call);
    if (!segment) return std::unexpected(segment.error());
    append(segments, *segment);
  }
  return segments;
}

Result<std::vector<SharedSegment>> Sharing::Impl::share(uintptr_t at, uintptr_t until, bool writable) {
  const uintptr_t first = round_down(at, page_size()), end = round_up(until, page_size());
  const int maps = MapsFile::of_this_process();
  auto mappings = read_mappings(maps, first, end);
  if (!mappings) return std::unexpected(std::move(mappings.error()));
  const auto any = move_private(*mappings, first, end, writable);
  if (!any) return std::unexpected(any.error());
  if (*any) mappings = read_mappings(maps, first, end);
  if (!mappings) return std::unexpected(std::move(mappings.error()));
  auto segments = segments_of(*mappings, first, end, writable);
  if (segments && leave_out) advise(whole.within(at, until), MADV_DONTFORK);
  return segments;
}

void Sharing::Impl::release(uintptr_t first, uintptr_t end) {
  const auto no_longer_whole = whole.remove(round_up(first, page_size()), round_down(end, page_size()));
  for (const auto& [from, to] : held.remove(round_down(first, page_size()), round_up(end, page_size()))) {
    give_back(from, to);
  }
  if (leave_out) advise(no_longer_whole, MADV_DOFORK);
  sweep_if_due();
}

void Sharing::Impl::give_back(uintptr_t first, uintptr_t end) {
  constexpr int kTries = 3;  // other threads may map memory anew meanwhile
  for (int i = 0; i < kTries && !moved.within(first, end).empty(); ++i) {
    if (const auto mappings = read_mappings(MapsFile::of_this_process(), first, end))
      moved.give_back(*mappings, first, end);
  }
}

// Pages that the program has unmapped or put elsewhere are found among all its mappings. Where there are many, look
// rarely: the look then costs as much as the registrations since the last one.
void Sharing::Impl::sweep_if_due() {
  if (moved.astray() == 0) return;
  if (mappings_at_sweep > kFewMappings && moved_since_sweep * kMappingsPerPage <= mappings_at_sweep) return;
  if (const auto mappings = read_mappings()) sweep(*mappings);
}

void Sharing::Impl::sweep(const std::vector<Mapping>& mappings) {
  mappings_at_sweep = mappings.size();
  moved_since_sweep = 0;
  moved.sweep(mappings, held);
}

void Sharing::Impl::advise(const Intervals::List& pages, int advice) const {
  for (const auto& [first, end] : pages) {
    for (const auto& [from, to] : moved.within(first, end)) {
      ::madvise(memory_at(from), to - from, advice);  // fails for unmapped pages, which need none
    }
  }
}

// Hold the lock across fork(), so that no page is half moved in the child.
void Sharing::Impl::before_fork() {
  Impl& impl = *of_this_process;
  impl.mutex.lock();
  if (const auto mappings = read_mappings()) {
    impl.sweep(*mappings);
    impl.copies.before(*mappings, impl.moved, impl.whole, impl.leave_out);
  }
}

void Sharing::Impl::after_fork_in_parent() {
  Impl& impl = *of_this_process;
  impl.copies.in_parent();
  if (impl.leave_out) impl.advise(impl.whole.all(), MADV_DONTFORK);
  impl.mutex.unlock();
}

void Sharing::Impl::after_fork_in_child() {
  Impl& impl = *of_this_process;
  impl.copies.in_child();
  PageGuard::forget();
  MapsFile::forget();
  impl.moved.forget_all();
  impl.files.forget_all();
  impl.held.clear();
  impl.whole.clear();
  impl.process = ::getpid();
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
  const std::lock_guard lock(impl_->mutex);
  impl_->sweep_if_due();
  impl_->held.add(round_down(at, page_size()), round_up(at + length, page_size()));
  impl_->whole.add(round_up(at, page_size()), round_down(at + length, page_size()));
  auto segments = impl_->share(at, at + length, writable);
  if (!segments) impl_->release(at, at + length);
  return segments;
}

Result<FileDescriptor> Sharing::open(const Mapping& unopened, bool writable) {
  const NoCancel guard;
  const std::lock_guard lock(impl_->mutex);
  return impl_->files.open(unopened, writable);
}

void Sharing::done_with(void* address, std::size_t length) {
  const NoCancel guard;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->process != ::getpid()) return;  // a child that ran no handlers: the pages are its parent's
  impl_->release(word_of(address), word_of(address) + length);
}

void Sharing::leave_out_of_children() {
  const std::lock_guard lock(impl_->mutex);
  impl_->leave_out = true;
  if (const auto mappings = read_mappings()) impl_->sweep(*mappings);
  impl_->advise(impl_->whole.all(), MADV_DONTFORK);
}

}  // namespace uroce::sharing
