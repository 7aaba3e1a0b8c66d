#include "sharing/page_steps.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "sharing/fresh_pages.h"
#include "sharing/page_joiners.h"
#include "sharing/page_presence.h"
#include "sharing/page_syscall.h"
#include "sharing/thread_stop.h"

namespace uroce::sharing {
namespace {

int put_in_place(uintptr_t staging, uintptr_t at, std::size_t length) {
  const long result = raw_syscall(SYS_mremap, staging, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at);
  return result < 0 && result > -4096 ? static_cast<int>(-result) : 0;
}

int protect(uintptr_t at, std::size_t length, int protection) {
  if (protection == (PROT_READ | PROT_WRITE)) return 0;
  return static_cast<int>(-raw_syscall(SYS_mprotect, at, length, static_cast<uintptr_t>(protection)));
}

uint8_t* bytes_at(uintptr_t address) { return reinterpret_cast<uint8_t*>(address); }

// Not checked by sanitizers: the moved pages include redzones.
__attribute__((no_sanitize("address", "thread"))) void copy_bytes(const Replacement& run, std::size_t from,
                                                                  std::size_t length) {
  const uintptr_t at = run.at + from, staging = run.staging + from, base = run.base + from;
  if (run.base == 0) return raw_copy(staging, at, length);
  if (run.keep_base) {  // copy from the base: other processes may store into the pages between two reads
    raw_copy(base, at, length);
    return raw_copy(staging, base, length);
  }
  for (std::size_t i = 0; i < length; ++i) {
    const uint8_t byte = bytes_at(at)[i];
    if (byte != bytes_at(base)[i]) bytes_at(staging)[i] = byte;
  }
}

#define UROCE_STEP(name, expression)                                         \
  do {                                                                       \
    moved.step = name;                                                       \
    if (const int code = (expression); code != 0) return moved.error = code; \
  } while (false)

void stop_threads(const PageWork& work, std::optional<ThreadStop>& stopped) {
  const auto self = static_cast<pid_t>(raw_syscall(SYS_gettid));
  stopped.emplace(work.helper_stack, std::initializer_list<pid_t>{self, static_cast<pid_t>(work.monitor.load())});
}

/// Bytes to guard at a time. A huge page moves as a whole, or the kernel would map it in parts. Where the kernel's own
/// stores fail meanwhile, that takes too long, unless there is nothing to copy.
std::size_t next_chunk(const PageWork& work, const Replacement& run, const FreshPages& fresh, std::size_t done) {
  const std::size_t whole = fresh.chunk_at(run.staging + done, work.chunk, true);
  if (whole <= work.chunk || work.guard.kernel_waits()) return whole;
  const bool untouched =
      whole == kHugePage && run.zero_where_missing && PresentPages(work.pagemap, run.at + done, whole).empty();
  return untouched ? whole : fresh.chunk_at(run.staging + done, work.chunk, false);
}

/// Whether the kernel may store into the pages on its own.
bool has_thread_block(const PresentPages& present, uintptr_t at, std::size_t length) {
  for (const auto& [first, end] : present) {
    if (find_thread_block(first, end) < end) return true;
  }
  return is_beside_thread_block(at, at + length);
}

/// Moves a chunk whose new pages are there.
int replace_chunk(PageWork& work, const Replacement& run, std::size_t length, Moved& moved) {
  const uintptr_t at = run.at + moved.bytes, staging = run.staging + moved.bytes;
  const bool guarded = work.kind != PageKind::unguarded;
  // A page that is missing now has zeros until it is replaced: the monitor write-protects what it supplies.
  const PresentPages present(run.zero_where_missing ? work.pagemap : -1, at, length);
  for (const auto& [first, end] : present) {
    if (present.swapped()) UROCE_STEP("reading the pages", populate(first, end - first, Populate::read));
  }
  std::optional<ThreadStop> stopped;
  if (guarded && has_thread_block(present, at, length)) stop_threads(work, stopped);
  for (const auto& [first, end] : present) {
    if (work.kind == PageKind::anonymous) move_joiners(first, end - first, staging + (first - at), first == at);
  }
  if (guarded) UROCE_STEP("write-protecting the pages", work.guard.stop_stores(at, length));
  for (const auto& [first, end] : present) copy_bytes(run, first - run.at, end - first);
  UROCE_STEP("mprotect", protect(staging, length, run.protection));
  UROCE_STEP("mremap", put_in_place(staging, at, length));
  work.guard.wake(at, length);
  if (run.base != 0 && !run.keep_base) wake_joiners(at, length);  // who began to wait before the pages were private
  return 0;
}

int replace_guarded(PageWork& work, const Replacement& run, Moved& moved) {
  const uint64_t what =
      work.kind == PageKind::anonymous ? PageGuard::kMissing | PageGuard::kStores : PageGuard::kStores;
  const bool guarded = work.kind != PageKind::unguarded;
  FreshPages fresh(run.staging, run.length, run.fresh_file && work.page == page_size());
  while (moved.bytes < run.length) {
    const uintptr_t at = run.at + moved.bytes, staging = run.staging + moved.bytes;
    if (!fresh.reaches(staging)) {
      const std::size_t next = std::min(work.chunk, run.length - moved.bytes);
      // Pages that cannot be watched are moved in another way, which needs new pages that are not there yet.
      if (guarded) UROCE_STEP("watching the pages", work.guard.watch(at, next, what));
      if (guarded) work.guard.unwatch(at, next);
      UROCE_STEP("allocating shared pages", fresh.allocate(staging + next));
    }
    const std::size_t length = next_chunk(work, run, fresh, moved.bytes);
    if (!run.zero_where_missing || work.pagemap < 0)
      UROCE_STEP("populating the pages", populate(at, length, Populate::read));
    // Where a part of a huge page has moved, the kernel has unmapped the rest.
    if (run.fresh_file && length < kHugePage)
      UROCE_STEP("mapping shared pages", populate(staging, length, Populate::read));
    if (guarded) UROCE_STEP("watching the pages", work.guard.watch(at, length, what));
    if (const int code = replace_chunk(work, run, length, moved); code != 0) return code;
    moved.bytes += length;
  }
  return 0;
}

int keep_in_pipe(const PageWork& work, uintptr_t at, std::size_t length) {
  iovec rest{memory_at(at), length};
  while (rest.iov_len > 0) {
    const long held =
        raw_syscall(SYS_vmsplice, static_cast<uintptr_t>(work.pipe_in), word_of(&rest), 1, 0x2 /* NONBLOCK */);
    if (held <= 0) return held == 0 ? EIO : static_cast<int>(-held);
    rest.iov_base = memory_at(word_of(rest.iov_base) + static_cast<uintptr_t>(held));
    rest.iov_len -= static_cast<std::size_t>(held);
  }
  return 0;
}

void release_from_pipe(const PageWork& work, std::size_t length) {
  for (std::size_t done = 0; done < length;) {
    const long got = raw_syscall(SYS_read, static_cast<uintptr_t>(work.pipe_out), work.buffer + done, length - done);
    if (got > 0) done += static_cast<std::size_t>(got);
    if (got == 0) return;
  }
}

// userfaultfd does not write-protect private pages of files. But once written to, such a page is the process's own, and
// stores go to it while it is mapped. vmsplice(2) into a pipe keeps a reference to it. So: put the pages into the pipe,
// map missing pages over them (a thread that accesses one waits), read the final bytes out of the pipe, and supply
// them.
int replace_private_file(PageWork& work, const Replacement& run, Moved& moved) {
  while (moved.bytes < run.length) {
    const std::size_t length = std::min(work.chunk, run.length - moved.bytes);
    const uintptr_t at = run.at + moved.bytes, staging = run.staging + moved.bytes;
    UROCE_STEP("making the pages private", populate(at, length, Populate::write));
    UROCE_STEP("mprotect", protect(staging, length, run.protection));
    UROCE_STEP("watching the new pages", work.guard.watch(staging, length, PageGuard::kMissing));
    UROCE_STEP("vmsplice", keep_in_pipe(work, at, length));
    UROCE_STEP("mremap", put_in_place(staging, at, length));
    release_from_pipe(work, length);
    const int put = work.guard.put(at, work.buffer, length, false);
    work.guard.unwatch(at, length);
    if (put != 0) raw_copy(at, work.buffer, length);  // not atomic, but the bytes must get there
    moved.bytes += length;
  }
  return 0;
}

#undef UROCE_STEP

}  // namespace

void sleep_until_set(std::atomic<uint32_t>& word) {
  while (word.load(std::memory_order_acquire) == 0) {
    raw_syscall(SYS_futex, word_of(&word), FUTEX_WAIT_PRIVATE, 0, 0);
  }
}

void* move_pages(void* argument) {
  auto& work = *static_cast<PageWork*>(argument);
  sleep_until_set(work.go);
  sleep_until_set(work.monitor);
  Moved& moved = work.moved;
  for (; moved.runs < work.runs.size(); ++moved.runs) {
    const Replacement& run = work.runs[moved.runs];
    moved.bytes = 0;
    const int code = work.kind == PageKind::private_file ? replace_private_file(work, run, moved)
                                                         : replace_guarded(work, run, moved);
    if (code != 0) {  // release the guarded pages: the caller's clean-up may need a thread that waits
      work.guard.unwatch(run.at + moved.bytes, run.length - moved.bytes);
      break;
    }
  }
  set_and_wake(work.done);
  return nullptr;
}

void* monitor_pages(void* argument) {
  auto& work = *static_cast<PageWork*>(argument);
  set_and_wake(work.monitor, static_cast<uint32_t>(raw_syscall(SYS_gettid)));
  pollfd ready[] = {{.fd = work.guard.fd(), .events = POLLIN, .revents = 0},
                    {.fd = work.stop_fd, .events = POLLIN, .revents = 0}};
  for (;;) {
    raw_syscall(SYS_poll, word_of(ready), 2, static_cast<uintptr_t>(-1));
    if (ready[1].revents != 0) return nullptr;
    uffd_msg message;
    if (raw_syscall(SYS_read, static_cast<uintptr_t>(ready[0].fd), word_of(&message), sizeof(message)) <= 0) continue;
    if (message.event != UFFD_EVENT_PAGEFAULT || work.kind != PageKind::anonymous) continue;
    if ((message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0) continue;  // replace_guarded() wakes the thread
    const uintptr_t at = round_down(message.arg.pagefault.address, work.page);
    // If the page was replaced or supplied in the meantime, wake the thread: its next access succeeds.
    if (work.guard.put(at, work.zeros, work.page, true) != 0) work.guard.wake(at, work.page);
  }
}

}  // namespace uroce::sharing
