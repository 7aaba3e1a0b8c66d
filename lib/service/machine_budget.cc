#include "service/machine_budget.h"

#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "service/memory_room.h"

namespace uroce::service {
namespace {

constexpr uint64_t kUsualMaxMapCount = 65530;
constexpr uint64_t kSharesOfMemory = 8;

std::atomic<uint64_t> mappings_taken{0};
std::atomic<uint64_t> mappings_allowed{0};  // 0: not read yet
std::atomic<uint64_t> holes_taken{0};

}  // namespace

uint64_t most_mappings() {
  uint64_t allowed = kUsualMaxMapCount;
  std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
  const uint64_t most = allowed - allowed / 4;
  mappings_allowed.store(most, std::memory_order_relaxed);
  return most;
}

namespace {

/// Whether `amount` fits into the total; then it is in.
bool add_within(std::atomic<uint64_t>& total, uint64_t amount, uint64_t most) {
  uint64_t before = total.load(std::memory_order_relaxed);
  do {
    if (before > most || amount > most - before) return false;
  } while (!total.compare_exchange_weak(before, before + amount, std::memory_order_relaxed));
  return true;
}

}  // namespace

Result<Share> take_mappings(uint64_t count) {
  uint64_t most = mappings_allowed.load(std::memory_order_relaxed);
  if (most == 0 || !add_within(mappings_taken, count, most)) {
    most = most_mappings();  // the operator may have raised it
    if (!add_within(mappings_taken, count, most)) {
      return fail(ENOMEM,
                  fmt::format("cannot map memory in {} pieces: the daemon maps {} of at most {} for all its clients; "
                              "register fewer, larger regions or raise vm.max_map_count",
                              count, mappings_taken.load(std::memory_order_relaxed), most));
    }
  }
  return Share(mappings_taken, count);
}

Result<Share> take_holes(uint64_t bytes) {
  const uint64_t most = memory_room().memory() / kSharesOfMemory;
  if (!add_within(holes_taken, bytes, most)) {
    return fail(
        ENOMEM,
        fmt::format("cannot register memory with holes of {} bytes: all clients together have {} of at most {}; "
                    "fill the memory before (MADV_POPULATE_WRITE)",
                    bytes, holes_taken.load(std::memory_order_relaxed), most));
  }
  return Share(holes_taken, bytes);
}

}  // namespace uroce::service
