#include "sharing/page_mover.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "sharing/addresses.h"
#include "sharing/fresh_pages.h"
#include "sharing/mappings.h"
#include "sharing/page_guard.h"
#include "sharing/page_steps.h"
#include "sharing/page_syscall.h"
#include "sharing/thread_list.h"
#include "sharing/thread_stop.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;
// Large enough to amortize the calls per chunk, small enough that a store waits for about 0.1 ms.
constexpr std::size_t kChunkBytes = 256 * 1024;
// Without privilege the kernel's stores fail meanwhile; a small chunk keeps that time short.
constexpr std::size_t kSmallChunkBytes = 32 * 1024;

/// Fewer pages are copied without a look at which are there.
constexpr std::size_t kWorthALook = 64 * 1024;
/// A page is read in the time in which four threads are asked.
constexpr std::size_t kFasterToRead = 32 * 1024;
/// More than the stack frames of a move.
constexpr std::size_t kOwnFrames = 128 * 1024;

std::size_t chunk_of(const PageGuard& guard, std::size_t page) {
  if (!guard.guards()) return std::max(kHugePage, page);
  return std::max(guard.kernel_waits() ? kChunkBytes : kSmallChunkBytes, page);
}

/// Whether the process has no other thread, for pages that nothing guards.
bool is_alone(const PageGuard& guard) {
  if (guard.guards()) return false;
  const int tasks = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (tasks < 0) return false;
  int threads = 0;
  const bool listed = for_threads(tasks, [&](pid_t) { return ++threads < 2; });
  ::close(tasks);
  return listed && threads == 1;
}

/// A descriptor of /proc/self/pagemap, where it is of use and not refused; else -1, and all pages are copied.
int open_pagemap(std::span<const Replacement> runs) {
  const auto worth = [](const Replacement& run) { return run.zero_where_missing && run.length > kWorthALook; };
  return std::ranges::any_of(runs, worth) ? ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
}

/// A descriptor of /proc/self/task, where asking all threads is faster than reading the pages; else -1.
int open_tasks(std::span<const Replacement> runs) {
  const auto worth = [](const Replacement& run) { return run.length > kFasterToRead; };
  if (!std::ranges::any_of(runs, worth)) return -1;
  return ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/// A descriptor of /proc/self/maps, where it is of use; else -1.
int maps_for(std::span<const Replacement> runs) {
  const auto has_file = [](const Replacement& run) { return run.file >= 0; };
  return std::ranges::any_of(runs, has_file) ? MapsFile::of_this_process() : -1;
}

std::unexpected<Error> cannot_start(int code) {
  return fail(code, fmt::format("cannot start a thread to move pages: errno {}", code));
}

/// The memory, descriptors and threads of one replace_pages(), for pages that may include the caller's stack.
class PageMover {
 public:
  PageMover(const PageGuard& guard, std::span<const Replacement> runs, PageKind kind, std::size_t page, bool alone);
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;
  ~PageMover();

  Result<Moved> run();

 private:
  Result<void> prepare_pipe();
  Result<void> start_monitor();
  void end_monitor();
  int start(pthread_t& thread, void* (*function)(void*), uintptr_t stack);

  PageWork* work_ = nullptr;
  std::optional<pthread_t> monitor_{};
  uintptr_t area_ = 0;
  std::size_t area_bytes_ = 0;
};

// Layout: two stacks, a buffer for one chunk, the helper's stack, PageWork, the runs.
PageMover::PageMover(const PageGuard& guard, std::span<const Replacement> runs, PageKind kind, std::size_t page,
                     bool alone) {
  const std::size_t fixed = 2 * kStackBytes + kChunkBytes + ThreadStop::kStackBytes + sizeof(PageWork);
  area_bytes_ = round_up(fixed + runs.size_bytes(), page_size());
  area_ = map_private(area_bytes_, PROT_READ | PROT_WRITE);
  if (area_ == 0) return;
  static_assert(alignof(Replacement) <= alignof(PageWork) && sizeof(PageWork) % alignof(Replacement) == 0);
  auto* copies = static_cast<Replacement*>(memory_at(area_ + fixed));
  std::uninitialized_copy(runs.begin(), runs.end(), copies);
  work_ = new (memory_at(area_ + fixed - sizeof(PageWork)))
      PageWork{.guard = guard, .kind = kind, .page = page, .runs = {copies, runs.size()}};
  work_->buffer = area_ + 2 * kStackBytes;
  work_->helper_stack = work_->buffer + kChunkBytes;
  work_->chunk = chunk_of(guard, page);
  work_->alone = alone;
}

PageMover::~PageMover() {
  if (work_ != nullptr) {
    for (const int fd : {work_->stop_fd, work_->pipe_in, work_->pipe_out, work_->pagemap, work_->tasks}) {
      if (fd >= 0) ::close(fd);
    }
    work_->~PageWork();
  }
  if (area_ != 0) ::munmap(memory_at(area_), area_bytes_);
}

// One slot of the pipe holds one page.
Result<void> PageMover::prepare_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(errno, fmt::format("cannot create a pipe to move pages: errno {}", errno));
  work_->pipe_out = ends[0];
  work_->pipe_in = ends[1];
  (void)::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kChunkBytes));  // when refused, chunks are smaller
  const int size = ::fcntl(ends[1], F_GETPIPE_SZ);
  work_->chunk = std::clamp(static_cast<std::size_t>(std::max(size, 0)), page_size(), work_->chunk);
  return {};
}

int PageMover::start(pthread_t& thread, void* (*function)(void*), uintptr_t stack) {
  pthread_attr_t attributes;
  int code = ::pthread_attr_init(&attributes);
  if (code != 0) return code;
  code = ::pthread_attr_setstack(&attributes, memory_at(stack), kStackBytes);
  if (code == 0) code = ::pthread_create(&thread, &attributes, function, work_);
  ::pthread_attr_destroy(&attributes);
  return code;
}

Result<void> PageMover::start_monitor() {
  if (auto pipe = prepare_pipe(); !pipe) return pipe;
  work_->stop_fd = ::eventfd(0, EFD_CLOEXEC);
  if (work_->stop_fd < 0) return fail(errno, fmt::format("cannot create an eventfd to move pages: errno {}", errno));
  pthread_t monitor;
  if (const int code = start(monitor, monitor_pages, area_); code != 0) return cannot_start(code);
  monitor_ = monitor;
  return {};
}

void PageMover::end_monitor() {
  if (!monitor_) return;
  const uint64_t one = 1;
  (void)!::write(work_->stop_fd, &one, sizeof(one));
  ::pthread_join(*monitor_, nullptr);
}

Result<Moved> PageMover::run() {
  if (work_ == nullptr) return fail(ENOMEM, "no memory for the threads that move pages");
  work_->maps = maps_for(work_->runs);
  work_->pagemap = open_pagemap(work_->runs);
  work_->tasks = open_tasks(work_->runs);
  if (work_->kind == PageKind::private_file) {
    if (auto monitor = start_monitor(); !monitor) return std::unexpected(std::move(monitor.error()));
  }
  pthread_t mover;
  const int code = start(mover, move_pages, area_ + kStackBytes);
  if (code == 0) {
    // Until `done` this thread stores nowhere: its own stack may be among the runs.
    set_and_wake(work_->go);
    sleep_until_set(work_->done);
    ::pthread_join(mover, nullptr);
  }
  end_monitor();
  if (code != 0) return cannot_start(code);
  return work_->moved;
}

/// Whether the calling thread can move the pages itself: none of them is of its stack, where all that it needs is.
bool may_go_here(const Replacement& run, PageKind kind) {
  const uintptr_t here = word_of(__builtin_frame_address(0));
  const bool own_stack = run.at < here + kOwnFrames && here < run.at + run.length + kOwnFrames;
  return kind != PageKind::private_file && !own_stack;
}

Moved replace_here(const PageGuard& guard, const Replacement run, PageKind kind, std::size_t page, bool alone) {
  const std::span<const Replacement> runs(&run, 1);
  PageWork work{.guard = guard,
                .kind = kind,
                .page = page,
                .runs = runs,
                .maps = maps_for(runs),
                .pagemap = open_pagemap(runs),
                .tasks = open_tasks(runs)};
  work.chunk = chunk_of(guard, page);
  work.alone = alone;
  replace_runs(work);
  for (const int fd : {work.pagemap, work.tasks}) {
    if (fd >= 0) ::close(fd);
  }
  return work.moved;
}

/// The rest of `runs` after `moved`.
std::vector<Replacement> rest_of(std::span<const Replacement> runs, const Moved& moved) {
  std::vector<Replacement> rest(runs.begin() + static_cast<std::ptrdiff_t>(moved.runs), runs.end());
  drop_front(rest.front(), moved.bytes);
  return rest;
}

Result<Moved> replace(const PageGuard& guard, std::span<const Replacement> runs, PageKind kind, std::size_t page) {
  Moved moved;
  const bool alone = is_alone(guard);
  if (runs.size() == 1 && may_go_here(runs.front(), kind) && (guard.guards() || alone)) {
    moved = replace_here(guard, runs.front(), kind, page, alone);
    if (moved.error != EAGAIN) return moved;  // else there is a thread control block among the pages
  }
  const auto rest = rest_of(runs, moved);
  auto by_thread = PageMover(guard, rest, kind, page, alone).run();
  if (!by_thread) return by_thread;
  if (by_thread->runs == 0) by_thread->bytes += moved.bytes;
  by_thread->runs += moved.runs;
  return by_thread;
}

/// The guard of a move. The error says why there is none.
Result<PageGuard> guard_for(PageKind kind) {
  auto guard = PageGuard::of_this_process(kind == PageKind::private_file ? PageGuard::travelling : PageGuard::plain);
  if (guard && kind == PageKind::protectable && !guard->guards_shared_memory()) {
    return fail(EOPNOTSUPP, "the kernel's userfaultfd cannot write-protect shared pages; Linux 5.19 and later can");
  }
  return guard;
}

}  // namespace

Result<Moved> replace_pages(std::span<const Replacement> runs, PageKind kind, std::size_t page) {
  if (runs.empty()) return Moved{};
  auto guard = guard_for(kind);
  const bool guards = guard.has_value();
  // Before Linux 5.19, pages of files move in another way.
  if (!guards && guard.error().code == EOPNOTSUPP && runs.front().fresh_file) return std::unexpected(guard.error());
  // Where nothing guards the pages, all other threads are stopped meanwhile.
  if (!guards && kind == PageKind::private_file) kind = PageKind::protectable;
  // Block signals: their handlers may access pages that are guarded. The new threads inherit the mask.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto moved = replace(guards ? *guard : PageGuard::none(), runs, kind, page);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const bool refused = !guards && moved && moved->error == EPERM && moved->step == std::string_view(kStoppingThreads);
  if (refused && moved->runs == 0 && moved->bytes == 0) return std::unexpected(std::move(guard.error()));
  return moved;
}

}  // namespace uroce::sharing
