#include "sharing/page_mover.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "sharing/page_guard.h"
#include "sharing/page_steps.h"
#include "sharing/page_syscall.h"
#include "sharing/thread_stop.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kStackBytes = 512 * 1024;
// Large enough to amortize the calls per chunk, small enough that a store waits for about 0.1 ms.
constexpr std::size_t kChunkBytes = 256 * 1024;
// Without privilege the kernel's stores fail meanwhile; a small chunk keeps that time short.
constexpr std::size_t kSmallChunkBytes = 32 * 1024;

/// The memory, descriptors and threads of one replace_pages().
class PageMover {
 public:
  PageMover(const PageGuard& guard, std::span<const Replacement> runs, PageKind kind, std::size_t page);
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;
  ~PageMover();

  Result<Moved> run();

 private:
  Result<void> prepare_pipe();
  int start(pthread_t& thread, void* (*function)(void*), uintptr_t stack);

  PageWork* work_ = nullptr;
  uintptr_t area_ = 0, zeros_ = 0;
  std::size_t area_bytes_ = 0, page_;
};

uintptr_t map_private(std::size_t length, int protection) {
  void* at = ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : word_of(at);
}

// Layout: two stacks, a buffer for one chunk, the helper's stack, PageWork, the runs.
PageMover::PageMover(const PageGuard& guard, std::span<const Replacement> runs, PageKind kind, std::size_t page)
    : page_(page) {
  const std::size_t fixed = 2 * kStackBytes + kChunkBytes + ThreadStop::kStackBytes + sizeof(PageWork);
  area_bytes_ = round_up(fixed + runs.size_bytes(), page_size());
  area_ = map_private(area_bytes_, PROT_READ | PROT_WRITE);
  zeros_ = map_private(page_, PROT_READ);
  if (area_ == 0 || zeros_ == 0) return;
  static_assert(alignof(Replacement) <= alignof(PageWork) && sizeof(PageWork) % alignof(Replacement) == 0);
  auto* copies = static_cast<Replacement*>(memory_at(area_ + fixed));
  std::uninitialized_copy(runs.begin(), runs.end(), copies);
  work_ = new (memory_at(area_ + fixed - sizeof(PageWork)))
      PageWork{.guard = guard, .kind = kind, .page = page, .runs = {copies, runs.size()}, .zeros = zeros_};
  work_->buffer = area_ + 2 * kStackBytes;
  work_->helper_stack = work_->buffer + kChunkBytes;
  work_->chunk = std::max(work_->guard.kernel_waits() ? kChunkBytes : kSmallChunkBytes, page);
}

PageMover::~PageMover() {
  if (work_ != nullptr) {
    for (const int fd : {work_->stop_fd, work_->pipe_in, work_->pipe_out, work_->pagemap}) {
      if (fd >= 0) ::close(fd);
    }
    work_->~PageWork();
  }
  if (area_ != 0) ::munmap(memory_at(area_), area_bytes_);
  if (zeros_ != 0) ::munmap(memory_at(zeros_), page_);
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

Result<Moved> PageMover::run() {
  if (work_ == nullptr) return fail(ENOMEM, "no memory for the threads that move pages");
  if (work_->kind == PageKind::private_file) {
    if (auto pipe = prepare_pipe(); !pipe) return std::unexpected(std::move(pipe.error()));
  }
  if (std::ranges::any_of(work_->runs, &Replacement::zero_where_missing)) {
    work_->pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);  // where refused, all pages are copied
  }
  work_->stop_fd = ::eventfd(0, EFD_CLOEXEC);
  if (work_->stop_fd < 0) return fail(errno, fmt::format("cannot create an eventfd to move pages: errno {}", errno));

  pthread_t mover, monitor;
  if (const int code = start(monitor, monitor_pages, area_); code != 0) {
    return fail(code, fmt::format("cannot start a thread to move pages: errno {}", code));
  }
  const int code = start(mover, move_pages, area_ + kStackBytes);
  if (code == 0) {
    // Until `done` this thread stores nowhere: its own stack may be among the runs.
    set_and_wake(work_->go);
    sleep_until_set(work_->done);
    ::pthread_join(mover, nullptr);
  }
  const uint64_t one = 1;
  (void)!::write(work_->stop_fd, &one, sizeof(one));
  ::pthread_join(monitor, nullptr);
  if (code != 0) return fail(code, fmt::format("cannot start a thread to move pages: errno {}", code));
  return work_->moved;
}

}  // namespace

Result<Moved> replace_pages(std::span<const Replacement> runs, PageKind kind, std::size_t page) {
  if (runs.empty()) return Moved{};
  auto guard = PageGuard::of_this_process();
  if (!guard) return std::unexpected(std::move(guard.error()));
  if (kind == PageKind::shared && !guard->guards_shared_memory()) {
    return fail(EOPNOTSUPP, "the kernel's userfaultfd cannot write-protect shared pages; Linux 5.19 and later can");
  }
  // Block signals: their frames would go to a stack that may be write-protected. The new threads inherit the mask.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto moved = PageMover(*guard, runs, kind, page).run();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return moved;
}

}  // namespace uroce::sharing
