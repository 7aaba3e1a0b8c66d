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
#include "sharing/mappings.h"
#include "sharing/page_joiners.h"
#include "sharing/page_presence.h"
#include "sharing/page_syscall.h"
#include "sharing/thread_stop.h"

namespace uroce::sharing {
namespace {

constexpr const char* kCopying = "copying the pages";
constexpr const char* kPutting = "putting the new pages in place";

int remap(uintptr_t from, std::size_t length, uintptr_t how, uintptr_t to) {
  const long result = raw_syscall(SYS_mremap, from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED | how, to);
  return result < 0 && result > -4096 ? static_cast<int>(-result) : 0;
}

int put_in_place(uintptr_t staging, uintptr_t at, std::size_t length) { return remap(staging, length, 0, at); }

// The mapping stays, without a page: a thread that accesses it waits (mremap(2), MREMAP_DONTUNMAP; Linux 5.7).
// Without a guard nobody accesses it.
int put_aside(const PageGuard& guard, uintptr_t at, uintptr_t park, std::size_t length) {
  return remap(at, length, guard.guards() ? MREMAP_DONTUNMAP : 0, park);
}

int protect(uintptr_t at, std::size_t length, int protection) {
  if (protection == (PROT_READ | PROT_WRITE)) return 0;
  return static_cast<int>(-raw_syscall(SYS_mprotect, at, length, static_cast<uintptr_t>(protection)));
}

uint8_t* bytes_at(uintptr_t address) { return reinterpret_cast<uint8_t*>(address); }

// The functions that read moved pages are not checked by sanitizers: the pages include redzones.
__attribute__((no_sanitize("address", "thread"))) bool is_zero(uintptr_t at, std::size_t length) {
  for (const uintptr_t end = at + length; at < end; at += 8 * sizeof(uint64_t)) {
    const auto* words = reinterpret_cast<const uint64_t*>(at);
    if ((words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) != 0) return false;
  }
  return true;
}

/// Calls `each(first, end)` for the pages that are not all zeros, until one returns an errno value.
template <class Each>
int for_pages_with_bytes(uintptr_t at, uintptr_t end, const Each& each) {
  while (at < end) {
    const uintptr_t first = at;
    while (at < end && !is_zero(at, page_size())) at += page_size();
    const int code = at == first ? 0 : each(first, at);
    if (code != 0) return code;
    if (at == first) at += page_size();
  }
  return 0;
}

/// Copies bytes of the run from where they are now.
void read_bytes(const Replacement& run, uintptr_t to, uintptr_t from, std::size_t offset, std::size_t length) {
  if (run.file < 0) return raw_copy(to, from, length);
  for (std::size_t done = 0; done < length;) {
    const long got = raw_syscall(SYS_pread64, static_cast<uintptr_t>(run.file), to + done, length - done,
                                 run.offset + offset + done);
    if (got <= 0) return;  // a memfd has every byte
    done += static_cast<std::size_t>(got);
  }
}

/// Writes bytes of the run to the file. Returns 0 or an errno value.
int write_bytes(const Replacement& run, uintptr_t from, std::size_t offset, std::size_t length) {
  for (std::size_t done = 0; done < length;) {
    const long put = raw_syscall(SYS_pwrite64, static_cast<uintptr_t>(run.into), from + done, length - done,
                                 run.into_offset + offset + done);
    if (put <= 0) return put == 0 ? EIO : static_cast<int>(-put);
    done += static_cast<std::size_t>(put);
  }
  return 0;
}

/// `from`: where the bytes of the run are now that begin at its byte `offset`.
__attribute__((no_sanitize("address", "thread"))) void store_bytes(const Replacement& run, uintptr_t from,
                                                                   std::size_t offset, std::size_t length) {
  const uintptr_t staging = run.staging + offset, base = run.base + offset;
  if (run.skip_zeros) {
    const uintptr_t view = run.view + offset;
    for_pages_with_bytes(view, view + length, [&](uintptr_t first, uintptr_t end) {
      raw_copy(staging + (first - view), first, end - first);
      return 0;
    });
    return;
  }
  if (run.base == 0) return read_bytes(run, staging, from, offset, length);
  if (run.keep_base) {  // copy from the base: other processes may store into the pages between two reads
    read_bytes(run, base, from, offset, length);
    return raw_copy(staging, base, length);
  }
  for (std::size_t i = 0; i < length; ++i) {
    const uint8_t byte = bytes_at(from)[i];
    if (byte != bytes_at(base)[i]) bytes_at(staging)[i] = byte;
  }
}

/// Gives all of the run's pages there memory, also those that have no bytes.
int allocate_in_file(const Replacement& run, std::size_t offset, std::size_t length) {
  return static_cast<int>(
      -raw_syscall(SYS_fallocate, static_cast<uintptr_t>(run.into), 0, run.into_offset + offset, length));
}

/// Bytes of the run that move at a time.
struct Chunk {
  std::size_t offset, length;
  bool by_file;  ///< write the bytes to the file of the new pages
};

/// `from`: where the chunk's bytes are now. Pages that are not `present` have none. Returns 0 or an errno value.
int copy_chunk(const Replacement& run, const Chunk& chunk, uintptr_t from, const PresentPages& present) {
  int code = 0;
  for (const auto& [first, end] : present) {
    const std::size_t offset = chunk.offset + (first - from);
    if (!chunk.by_file) {
      store_bytes(run, first, offset, end - first);
    } else if (code == 0) {
      code = write_bytes(run, first, offset, end - first);
    }
  }
  if (chunk.by_file && code == 0 && !present.all(chunk.length))
    code = allocate_in_file(run, chunk.offset, chunk.length);
  return code;
}

#define UROCE_STEP(name, expression)                                         \
  do {                                                                       \
    moved.step = name;                                                       \
    if (const int code = (expression); code != 0) return moved.error = code; \
  } while (false)

/// Bytes to guard at a time. A huge page moves as a whole, or the kernel would map it in parts. Where the kernel's own
/// accesses fail meanwhile, that takes too long, unless there is nothing to copy.
std::size_t next_length(const PageWork& work, const Replacement& run, const FreshPages& fresh, std::size_t done) {
  const std::size_t whole = fresh.chunk_at(run.staging + done, work.chunk, true);
  if (whole <= work.chunk || work.guard.kernel_waits()) return whole;
  const bool untouched =
      whole == kHugePage && run.zero_where_missing && PresentPages(work.pagemap, run.at + done, whole).empty();
  return untouched ? whole : fresh.chunk_at(run.staging + done, work.chunk, false);
}

/// Whether the kernel may store into the pages on its own.
bool has_thread_block(const PageWork& work, const PresentPages& present, uintptr_t at, std::size_t length) {
  if (work.tasks >= 0) {
    if (const auto known = thread_reaches(work.tasks, at, at + length)) return *known;
  }
  for (const auto& [first, end] : present) {
    if (thread_block_reaches(first, end)) return true;
  }
  return !present.all(length) && (thread_block_reaches(at, at) || thread_block_reaches(at + length, at + length));
}

/// Prepares pages that threads still use. Nobody waits yet.
int prepare_chunk(const PageWork& work, const Replacement& run, const Chunk& chunk, Moved& moved,
                  std::optional<ThreadStop>& stopped) {
  const auto [offset, length, by_file] = chunk;
  const uintptr_t at = run.at + offset;
  const PresentPages present(run.zero_where_missing ? work.pagemap : -1, at, length);
  for (const auto& [first, end] : present) {
    const bool read = present.swapped() || (work.kind == PageKind::protectable && run.fresh_file);
    if (read) UROCE_STEP("reading the pages", populate(first, end - first, Populate::read));
  }
  if (by_file && !present.all(length)) UROCE_STEP("allocating shared pages", allocate_in_file(run, offset, length));
  if (run.skip_zeros) {
    const uintptr_t staging = run.staging + offset, view = run.view + offset;
    UROCE_STEP("allocating private pages",
               for_pages_with_bytes(view, view + length, [&](uintptr_t first, uintptr_t end) {
                 return populate(staging + (first - view), end - first, Populate::write);
               }));
  }
  if (work.alone || (work.guard.guards() && !has_thread_block(work, present, at, length))) return 0;
  if (work.helper_stack == 0) UROCE_STEP(kStoppingThreads, EAGAIN);
  const auto self = static_cast<pid_t>(raw_syscall(SYS_gettid));
  stopped.emplace(work.helper_stack, std::initializer_list<pid_t>{self});
  if (!work.guard.guards() && !stopped->complete()) UROCE_STEP(kStoppingThreads, EPERM);
  for (const auto& [first, end] : present) {
    if (work.kind == PageKind::anonymous) move_joiners(first, end - first, run.staging + (first - run.at), first == at);
  }
  return 0;
}

/// Threads that access the chunk wait while its bytes are copied from the park.
int replace_anonymous_chunk(const PageWork& work, const Replacement& run, const Chunk& chunk, Moved& moved) {
  const std::size_t length = chunk.length;
  const uintptr_t at = run.at + chunk.offset, staging = run.staging + chunk.offset, park = run.park + chunk.offset;
  UROCE_STEP("watching the pages", work.guard.watch(at, length, PageGuard::kMissing | PageGuard::kStores));
  UROCE_STEP("putting the pages aside", put_aside(work.guard, at, park, length));
  moved.step = kCopying;
  moved.error = copy_chunk(run, chunk, park, PresentPages(run.zero_where_missing ? work.pagemap : -1, park, length));
  if (moved.error == 0) {
    moved.step = kPutting;
    moved.error = protect(staging, length, run.protection);
  }
  // The park becomes one mapping, which children of fork() need not copy.
  raw_syscall(SYS_madvise, park, length, MADV_DONTFORK);
  // Nobody's memory is to be replaced, and nothing is to be where the program has nothing.
  if (work.guard.is_watched(at, length)) {
    if (moved.error == 0) moved.error = put_in_place(staging, at, length);
    if (moved.error != 0) {
      raw_syscall(SYS_madvise, park, length, MADV_DOFORK);
      (void)put_in_place(park, at, length);
    }
  } else {
    moved.error = EFAULT;
  }
  work.guard.wake(at, length);
  return moved.error;
}

/// Whether the run's file still is mapped there; true where the kernel cannot tell.
bool is_in_place(const PageWork& work, const Replacement& run, uintptr_t at, std::size_t length) {
  if (run.file < 0) return true;
  Place place;
  const int code = find_place(work.maps, at, place);
  if (code != 0) return code != ENOENT;
  return place.first <= at && at + length <= place.end && place.inode == run.inode && place.device == run.device &&
         place.offset + (at - place.first) == run.offset + (at - run.at);
}

/// Threads that store into the chunk wait while it is copied.
int replace_protectable_chunk(const PageWork& work, const Replacement& run, const Chunk& chunk, Moved& moved) {
  const std::size_t length = chunk.length;
  const uintptr_t at = run.at + chunk.offset, staging = run.staging + chunk.offset;
  UROCE_STEP("watching the pages", work.guard.watch(at, length, PageGuard::kStores));
  UROCE_STEP("write-protecting the pages", work.guard.stop_stores(at, length));
  if (!is_in_place(work, run, at, length)) UROCE_STEP(kPutting, EFAULT);
  UROCE_STEP(kCopying,
             copy_chunk(run, chunk, at, PresentPages(run.zero_where_missing ? work.pagemap : -1, at, length)));
  UROCE_STEP("mprotect", protect(staging, length, run.protection));
  UROCE_STEP(kPutting, work.guard.stop_stores(at, length));  // fails where the program has unmapped the pages
  UROCE_STEP(kPutting, put_in_place(staging, at, length));
  work.guard.wake(at, length);
  return 0;
}

/// No thread can store into the chunk.
int replace_unguarded_chunk(const Replacement& run, const Chunk& chunk, Moved& moved) {
  const std::size_t length = chunk.length;
  const uintptr_t at = run.at + chunk.offset, staging = run.staging + chunk.offset;
  UROCE_STEP("populating the pages", populate(at, length, Populate::read));
  UROCE_STEP(kCopying, copy_chunk(run, chunk, at, PresentPages(-1, at, length)));
  UROCE_STEP("mprotect", protect(staging, length, run.protection));
  UROCE_STEP(kPutting, put_in_place(staging, at, length));
  return 0;
}

int replace_chunk(const PageWork& work, const Replacement& run, const Chunk& chunk, Moved& moved) {
  if (work.kind == PageKind::unguarded) return replace_unguarded_chunk(run, chunk, moved);
  std::optional<ThreadStop> stopped;
  if (const int code = prepare_chunk(work, run, chunk, moved, stopped); code != 0) return code;
  const int code = work.kind == PageKind::protectable ? replace_protectable_chunk(work, run, chunk, moved)
                                                      : replace_anonymous_chunk(work, run, chunk, moved);
  // Those who began to wait before the pages were private.
  if (code == 0 && run.base != 0 && !run.keep_base) wake_joiners(run.at + chunk.offset, chunk.length);
  return code;
}

int replace_chunks(const PageWork& work, const Replacement& run, Moved& moved) {
  FreshPages fresh(run.staging, run.length, run.fresh_file && work.page == page_size(), run.into >= 0);
  while (moved.bytes < run.length) {
    const uintptr_t at = run.at + moved.bytes, staging = run.staging + moved.bytes;
    if (!fresh.reaches(staging)) {
      const std::size_t next = std::min(work.chunk, run.length - moved.bytes);
      // Pages that cannot be watched are moved in another way, which needs new pages that are not there yet.
      if (run.fresh_file && work.kind == PageKind::protectable && moved.bytes == 0) {
        UROCE_STEP("watching the pages", work.guard.watch(at, next, PageGuard::kStores));
        work.guard.unwatch(at, next);
      }
      UROCE_STEP("allocating shared pages",
                 run.skip_zeros || run.has_pages ? fresh.skip(staging + next) : fresh.allocate(staging + next));
    }
    const Chunk chunk{.offset = moved.bytes,
                      .length = next_length(work, run, fresh, moved.bytes),
                      .by_file = run.into >= 0 && !fresh.is_huge(staging)};
    // Where a part of a huge page has moved, the kernel has unmapped the rest.
    if (fresh.is_huge(staging) && chunk.length < kHugePage)
      UROCE_STEP("mapping shared pages", populate(staging, chunk.length, Populate::read));
    if (const int code = replace_chunk(work, run, chunk, moved); code != 0) return code;
    moved.bytes += chunk.length;
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

void replace_runs(PageWork& work) {
  Moved& moved = work.moved;
  for (; moved.runs < work.runs.size(); ++moved.runs) {
    const Replacement& run = work.runs[moved.runs];
    moved.bytes = 0;
    const int code =
        work.kind == PageKind::private_file ? replace_private_file(work, run, moved) : replace_chunks(work, run, moved);
    if (code != 0) {  // release the guarded pages: the caller's clean-up may need a thread that waits
      work.guard.unwatch(run.at + moved.bytes, run.length - moved.bytes);
      break;
    }
  }
}

void* move_pages(void* argument) {
  auto& work = *static_cast<PageWork*>(argument);
  sleep_until_set(work.go);
  replace_runs(work);
  set_and_wake(work.done);
  return nullptr;
}

void* monitor_pages(void* argument) {
  auto& work = *static_cast<PageWork*>(argument);
  pollfd ready[] = {{.fd = work.guard.fd(), .events = POLLIN, .revents = 0},
                    {.fd = work.stop_fd, .events = POLLIN, .revents = 0}};
  for (;;) {
    raw_syscall(SYS_poll, word_of(ready), 2, static_cast<uintptr_t>(-1));
    if (ready[1].revents != 0) return nullptr;
    uffd_msg message;
    raw_syscall(SYS_read, static_cast<uintptr_t>(ready[0].fd), word_of(&message), sizeof(message));
  }
}

}  // namespace uroce::sharing
