#include "service/fault_watch.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <mutex>

#include <sys/mman.h>

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

/// All watches, by their first address. The handler takes the mutex, too. A fault is raised by an access to watched
/// memory, and no code under the mutex accesses any: so no thread waits for itself.
struct WatchTable {
  std::mutex mutex;
  std::map<uintptr_t, FaultWatch*> watches;
  std::size_t windows = 0;
  std::byte* spares = nullptr;  // pages, each a mapping of its own
  std::size_t spares_left = 0;
  std::atomic<uint64_t> breaks{0};
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

void install_watch() {
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

}  // namespace

bool FaultWatch::repair_at(uintptr_t address) {
  WatchTable& watched = watch_table();
  const std::scoped_lock lock(watched.mutex);
  const auto after = watched.watches.upper_bound(address);
  if (after == watched.watches.begin()) return false;
  FaultWatch& watch = *std::prev(after)->second;
  if (address - watch.base_ >= watch.bytes_ || !watch.repair(address)) return false;
  watch.broken_.store(true, std::memory_order_release);
  watched.breaks.fetch_add(1, std::memory_order_release);
  return true;
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

FaultWatch::FaultWatch(std::byte* base, std::size_t bytes, std::size_t page)
    : base_(reinterpret_cast<uintptr_t>(base)), bytes_(bytes), page_(page) {
  install_watch();
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
