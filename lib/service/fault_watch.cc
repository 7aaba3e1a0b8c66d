#include "service/fault_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/engine_round.h"
#include "base/signals.h"

namespace uroce::service {
namespace {

/// The most that one repair replaces. Its mappings vanish meanwhile, which takes about 0.1 ms for each 4 MiB of small
/// pages, and the engine waits.
constexpr std::size_t kWindow = std::size_t{16} << 20;
/// Windows at once. Each may split a mapping in three, and the daemon keeps a quarter of vm.max_map_count for itself.
constexpr std::size_t kMaxWindows = 1024;
constexpr std::size_t kSpares = 16;
constexpr std::size_t kSparePage = 4096;
/// Shorter rounds are usual: the engine did not wait.
constexpr Nanos kWait{1'000'000};

/// All watches, by their first address. The handler takes the mutex, too. A fault is raised by an access to watched
/// memory, and no code under the mutex accesses any: so no thread waits for itself.
struct WatchTable {
  std::mutex mutex;
  std::map<uintptr_t, FaultWatch*> watches;
  std::size_t windows = 0;
  std::byte* spares = nullptr;  // pages, each a mapping of its own
  std::size_t spares_left = 0;
  std::atomic<uint64_t> breaks{0};
  int bell = -1;
  struct sigaction previous{};
};

WatchTable& watch_table() {
  static auto* const kTable = new WatchTable;  // never destroyed: engines may fault while the process ends
  return *kTable;
}

/// Puts zero pages at [at, at + bytes). Calls nothing but the kernel, because this is a signal handler.
bool put_zeros(uintptr_t at, std::size_t bytes) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the table holds addresses
  void* const place = reinterpret_cast<void*>(at);
  return mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
         place;
}

/// Mappings that repairs can give up when something else in the process has taken all of them. Neighbours differ in
/// their protection, or the kernel would join them. The first and the last page are no spares for the same reason.
void make_spares(WatchTable& watched) {
  void* const pages = mmap(nullptr, (kSpares + 2) * kSparePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return;
  watched.spares = static_cast<std::byte*>(pages);
  for (std::size_t i = 1; i <= kSpares; i += 2) mprotect(watched.spares + i * kSparePage, kSparePage, PROT_READ);
  watched.spares_left = kSpares;
}

bool give_up_spare(WatchTable& watched) {
  if (watched.spares_left == 0) return false;
  munmap(watched.spares + watched.spares_left-- * kSparePage, kSparePage);
  return true;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  // Other codes carry no address: another process sent the signal, or memory failed that nobody accesses now.
  const bool accessed = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
  if (accessed && FaultWatch::repair_at(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  pass_on(watch_table().previous, signal, info, context);
}

/// The userfaultfd of all guarded memory, or -1. It lives as long as the process, because closing it looks at every
/// mapping.
int open_guard() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  auto fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY));
  if (fd < 0) fd = static_cast<int>(syscall(SYS_userfaultfd, kFlags));  // Linux before 5.11
  if (fd < 0) return -1;
  uffdio_api api{.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM, .ioctls = 0};
  if (ioctl(fd, UFFDIO_API, &api) == 0) return fd;
  close(fd);
  return -1;
}

int guard_descriptor() {
  static const int kDescriptor = open_guard();
  return kDescriptor;
}

}  // namespace

bool FaultWatch::can_guard() { return guard_descriptor() >= 0; }

int FaultWatch::guard(std::byte* at, std::size_t bytes) {
  if (!can_guard()) return EPERM;
  uffdio_register request{.range = {.start = reinterpret_cast<uintptr_t>(at), .len = bytes},
                          .mode = UFFDIO_REGISTER_MODE_MISSING,
                          .ioctls = 0};
  return ioctl(guard_descriptor(), UFFDIO_REGISTER, &request) == 0 ? 0 : errno;
}

void FaultWatch::settle(std::size_t bytes, std::size_t page) {
  const std::scoped_lock lock(watch_table().mutex);
  bytes_ = bytes;
  page_ = page;
}

void FaultWatch::note_waits(std::shared_ptr<EngineWaits> waits, uint64_t file) {
  const std::scoped_lock lock(watch_table().mutex);
  waits_ = std::move(waits);
  file_ = file;
}

void FaultWatch::set_bell(int fd) {
  const std::scoped_lock lock(watch_table().mutex);
  watch_table().bell = fd;
}

bool FaultWatch::repair_at(uintptr_t address) {
  const Nanos waited = time_in_engine_round();
  WatchTable& watched = watch_table();
  const std::scoped_lock lock(watched.mutex);
  const auto after = watched.watches.upper_bound(address);
  if (after == watched.watches.begin()) return false;
  FaultWatch& watch = *std::prev(after)->second;
  if (address - watch.base_ >= watch.bytes_ || !watch.repair(address)) return false;
  if (watch.waits_ != nullptr && waited >= kWait) watch.note_wait(waited);
  watch.mark_broken();
  return true;
}

// Rings for waits alone: where a file was cut short, the message that is arriving may first become whole.
void FaultWatch::note_wait(Nanos waited) {
  waits_->file.store(file_, std::memory_order_relaxed);
  waits_->nanoseconds.fetch_add(waited.count(), std::memory_order_relaxed);
  if (watch_table().bell < 0) return;
  const int before = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(watch_table().bell, &one, sizeof one);
  errno = before;
}

void FaultWatch::mark_broken() {
  broken_.store(true, std::memory_order_release);
  watch_table().breaks.fetch_add(1, std::memory_order_release);
}

// The handler may wait for the mutex, so let it go between the parts. Where mappings run short, the handler helps.
void FaultWatch::break_all() {
  const std::size_t window = std::max(kWindow, page_);
  for (std::size_t done = 0; done < bytes_; done += window) {
    const std::scoped_lock lock(watch_table().mutex);
    put_zeros(base_ + done, std::min(window, bytes_ - done));
  }
  mark_broken();
}

// A window around the address, so that the time is bounded. When mappings run short, the whole range: it is one mapping
// and replaces at least one.
bool FaultWatch::repair(uintptr_t address) {
  WatchTable& watched = watch_table();
  const std::size_t window = std::max(kWindow, page_);
  const uintptr_t first = std::max(base_, address & ~(window - 1));
  const uintptr_t end = std::min(base_ + bytes_, (address | (window - 1)) + 1);
  if (end - first < bytes_ && watched.windows < kMaxWindows && put_zeros(first, end - first)) {
    ++windows_;
    ++watched.windows;
    return true;
  }
  while (!put_zeros(base_, bytes_)) {
    if (!give_up_spare(watched)) return false;
  }
  return true;
}

void FaultWatch::install() {
  static std::once_flag once;
  std::call_once(once, [] {
    make_spares(watch_table());
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // The previous handler may leave by siglongjmp, which does not restore the signal mask.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, &action, &watch_table().previous);
  });
}

FaultWatch::FaultWatch(std::byte* base, std::size_t bytes, std::size_t page)
    : base_(reinterpret_cast<uintptr_t>(base)), bytes_(bytes), page_(page) {
  install();
  const std::scoped_lock lock(watch_table().mutex);
  watch_table().watches.emplace(base_, this);
}

FaultWatch::~FaultWatch() {
  const std::scoped_lock lock(watch_table().mutex);
  watch_table().watches.erase(base_);
  watch_table().windows -= windows_;
}

uint64_t FaultWatch::breaks() { return watch_table().breaks.load(std::memory_order_acquire); }

}  // namespace uroce::service
