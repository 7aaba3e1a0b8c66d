#include "service/fault_watch.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "base/signals.h"

namespace uroce::service {
namespace {

struct Slot {
  std::atomic<uintptr_t> base{0};  // 0: free; written last when taken, first when freed
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> broken{false};
};
std::array<Slot, FaultWatch::kSlots> slots;
std::atomic<int> slots_seen{0};  // slots from here on were never used
std::atomic<uint64_t> breaks_seen{0};
std::mutex slots_mutex;
std::vector<int> free_slots;  // below slots_seen
struct sigaction previous;

bool repair(uintptr_t address) {
  const int seen = slots_seen.load(std::memory_order_acquire);
  for (int index = 0; index < seen; ++index) {
    Slot& slot = slots[static_cast<std::size_t>(index)];
    const uintptr_t base = slot.base.load(std::memory_order_acquire);
    const std::size_t bytes = slot.bytes.load(std::memory_order_relaxed);
    if (base == 0 || address < base || address - base >= bytes) continue;
    // A plain system call, because this is a signal handler.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the slot holds the address
    void* const place = reinterpret_cast<void*>(base);
    if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) !=
        place) {
      return false;
    }
    slot.broken.store(true, std::memory_order_release);
    breaks_seen.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (!repair(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(previous, signal, info, context);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // The previous handler may leave by siglongjmp, which does not restore the signal mask.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigaction(SIGBUS, &action, &previous);
  });
}

}  // namespace

int FaultWatch::add(std::byte* base, std::size_t bytes) {
  install();
  const std::scoped_lock lock(slots_mutex);
  int index = slots_seen.load(std::memory_order_relaxed);
  if (!free_slots.empty()) {
    index = free_slots.back();
    free_slots.pop_back();
  } else if (index == kSlots) {
    return -1;
  }
  Slot& slot = slots[static_cast<std::size_t>(index)];
  slot.broken.store(false, std::memory_order_relaxed);
  slot.bytes.store(bytes, std::memory_order_relaxed);
  slot.base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
  if (index == slots_seen.load(std::memory_order_relaxed)) slots_seen.store(index + 1, std::memory_order_release);
  return index;
}

void FaultWatch::remove(int slot) {
  const std::scoped_lock lock(slots_mutex);
  slots[static_cast<std::size_t>(slot)].base.store(0, std::memory_order_release);
  free_slots.push_back(slot);
}

bool FaultWatch::broken(int slot) {
  return slots[static_cast<std::size_t>(slot)].broken.load(std::memory_order_acquire);
}

uint64_t FaultWatch::breaks() { return breaks_seen.load(std::memory_order_acquire); }

}  // namespace uroce::service
