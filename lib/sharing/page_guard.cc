#include "sharing/page_guard.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sharing/page_syscall.h"

namespace uroce::sharing {
namespace {

constexpr uint64_t kWanted = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMAP |
                             UFFD_FEATURE_MISSING_HUGETLBFS | UFFD_FEATURE_MISSING_SHMEM |
                             UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

struct Opened {
  int fd = -1;
  bool kernel_waits = false;
};

std::atomic<unsigned> descriptors_opened{0};

Opened open_descriptor() {
  descriptors_opened.fetch_add(1, std::memory_order_relaxed);
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  if (const long fd = ::syscall(SYS_userfaultfd, kFlags); fd >= 0) return {static_cast<int>(fd), true};
  if (const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); device >= 0) {
    const int fd = ::ioctl(device, USERFAULTFD_IOC_NEW, kFlags);
    ::close(device);
    if (fd >= 0) return {fd, true};
  }
  return {static_cast<int>(::syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY)), false};
}

Result<Opened> open_descriptor_or_say() {
  const Opened opened = open_descriptor();
  if (opened.fd >= 0) return opened;
  const int code = errno;
  if (code == EPERM || code == ENOSYS) {
    return fail(EPERM,
                "userfaultfd is not permitted here, nor to stop the program's threads (ptrace), and private memory "
                "cannot be shared without one of them; allow one in the sandbox's seccomp filter, or give access to "
                "/dev/userfaultfd");
  }
  return fail(code, fmt::format("userfaultfd failed with errno {}", code));
}

int result(long value) { return value < 0 ? static_cast<int>(-value) : 0; }

template <class T>
int call(int fd, uintptr_t request, T* argument) {
  if (fd < 0) return 0;  // PageGuard::none()
  return result(raw_syscall(SYS_ioctl, static_cast<uintptr_t>(fd), request, word_of(argument)));
}

/// The wanted features that the kernel has. The descriptor that asks cannot be used afterwards (userfaultfd(2),
/// UFFDIO_API), and closing it looks at every mapping of the process: so ask once.
Result<uint64_t> kernel_features() {
  static std::atomic<uint64_t> known{0};
  if (const uint64_t features = known.load(std::memory_order_relaxed); features != 0) return features;
  auto probe = open_descriptor_or_say();
  if (!probe) return std::unexpected(std::move(probe.error()));
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  const int probed = call(probe->fd, UFFDIO_API, &api);
  ::close(probe->fd);
  if (probed != 0)
    return fail(EOPNOTSUPP, fmt::format("the kernel's userfaultfd has an unknown version: errno {}", probed));
  known.store(api.features & kWanted, std::memory_order_relaxed);
  return api.features & kWanted;
}

struct Kept {
  PageGuard guard;
  pid_t process;
};
std::array<std::optional<Kept>, 2> kept;

}  // namespace

// A child that ran no handlers of fork() has its parent's descriptor; a program may close what it does not know.
Result<PageGuard> PageGuard::of_this_process(Kind kind) {
  const pid_t self = ::getpid();
  auto& mine = kept[kind];
  if (mine && mine->process == self && mine->guard.usable()) return mine->guard;
  auto fresh = open(kind);
  if (!fresh) return fresh;
  mine = {*fresh, self};
  return fresh;
}

void PageGuard::forget() {
  for (auto& one : kept) {
    if (one && one->guard.usable()) ::close(one->guard.fd_);
    one.reset();
  }
}

unsigned PageGuard::opened() { return descriptors_opened.load(std::memory_order_relaxed); }

Result<PageGuard> PageGuard::open(Kind kind) {
  const auto supported = kernel_features();
  if (!supported) return std::unexpected(supported.error());
  const uint64_t features = kind == travelling ? *supported : *supported & ~uint64_t{UFFD_FEATURE_EVENT_REMAP};
  auto opened = open_descriptor_or_say();
  if (!opened) return std::unexpected(std::move(opened.error()));
  PageGuard guard(opened->fd, features, opened->kernel_waits);
  uffdio_api api{.api = UFFD_API, .features = features, .ioctls = 0};
  if (const int code = call(guard.fd_, UFFDIO_API, &api); code != 0) {
    ::close(guard.fd_);
    return fail(code, fmt::format("userfaultfd refused features {:#x} with errno {}", features, code));
  }
  if ((features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) == 0) {
    ::close(guard.fd_);
    return fail(EOPNOTSUPP, "the kernel's userfaultfd cannot write-protect pages; Linux 5.7 and later can");
  }
  return guard;
}

// Waking threads that wait for one page does no harm: those that still must wait do so again.
bool PageGuard::usable() const {
  uffdio_range nothing{.start = uintptr_t{1} << 32, .len = page_size()};
  return call(fd_, UFFDIO_WAKE, &nothing) == 0;
}

bool PageGuard::guards_shared_memory() const { return (features_ & UFFD_FEATURE_WP_HUGETLBFS_SHMEM) != 0; }

int PageGuard::watch(uintptr_t at, std::size_t length, uint64_t what) const {
  uffdio_register request{.range = {.start = at, .len = length}, .mode = 0, .ioctls = 0};
  if ((what & kMissing) != 0) request.mode |= UFFDIO_REGISTER_MODE_MISSING;
  if ((what & kStores) != 0) request.mode |= UFFDIO_REGISTER_MODE_WP;
  return call(fd_, UFFDIO_REGISTER, &request);
}

int PageGuard::unwatch(uintptr_t at, std::size_t length) const {
  uffdio_range request{.start = at, .len = length};
  return call(fd_, UFFDIO_UNREGISTER, &request);
}

int PageGuard::stop_stores(uintptr_t at, std::size_t length) const {
  uffdio_writeprotect request{.range = {.start = at, .len = length}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  int code = 0;
  do {  // EAGAIN: another thread is changing the address space
    code = call(fd_, UFFDIO_WRITEPROTECT, &request);
  } while (code == EAGAIN);
  return code;
}

bool PageGuard::is_watched(uintptr_t at, std::size_t length) const {
  uffdio_writeprotect request{.range = {.start = at, .len = length}, .mode = UFFDIO_WRITEPROTECT_MODE_DONTWAKE};
  int code = 0;
  do {
    code = call(fd_, UFFDIO_WRITEPROTECT, &request);
  } while (code == EAGAIN);
  return code == 0;
}

void PageGuard::wake(uintptr_t at, std::size_t length) const {
  uffdio_range request{.start = at, .len = length};
  call(fd_, UFFDIO_WAKE, &request);
}

int PageGuard::put(uintptr_t at, uintptr_t from, std::size_t length, bool stop_stores) const {
  for (std::size_t done = 0; guards() && done < length;) {
    uffdio_copy request{.dst = at + done,
                        .src = from + done,
                        .len = length - done,
                        .mode = stop_stores ? uint64_t{UFFDIO_COPY_MODE_WP} : 0,
                        .copy = 0};
    const int code = call(fd_, UFFDIO_COPY, &request);
    if (request.copy > 0) done += static_cast<std::size_t>(request.copy);
    if (code != 0 && code != EAGAIN) return code;
  }
  return 0;
}

}  // namespace uroce::sharing
