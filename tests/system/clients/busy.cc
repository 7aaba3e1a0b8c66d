// Registers random pieces of memory and ends the regions while other threads use the same pages. All content is
// checked.
//
//   busy SECONDS SEED NAME...
//
// Names: `store` has threads store into the pages, `fork` makes children, `remap` unmaps, moves, maps anew and protects
// pages that the same thread has registered, `race` does so while other threads register them, which may cost the bytes
// of these pages and nothing else, and `fault` touches pages for the first time while they are registered.
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "busy_faults.h"
#include "busy_moves.h"
#include "busy_slots.h"
#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr std::size_t kPages = 256, kLongest = 16, kRegistrars = 2;
// The kernel puts nobody else's mappings so low. So what is unmapped here stays so.
constexpr uintptr_t kPlace = uintptr_t{1} << 40;

std::atomic<bool> stop{false};
std::atomic<std::size_t> regions{0};

/// Random pieces of these pages; up to four regions are there at a time, which overlap. Where another thread unmaps
/// or protects them, a registration may be refused.
void register_pieces(ibv_pd* pd, Byte* memory, std::size_t pages, bool may_fail, Random random) {
  std::array<ibv_mr*, 4> held{};
  for (; !stop; ++regions) {
    ibv_mr*& region = held[random.below(held.size())];
    if (region != nullptr) must_deregister(region);
    const std::size_t length = 1 + random.below(kLongest), first = random.below(pages - length + 1);
    region = ibv_reg_mr(pd, memory + first * kPage, length * kPage, kAccess);
    if (region == nullptr && !may_fail)
      die("expected %zu pages from page %zu to be registered: %s", length, first, std::strerror(errno));
  }
  for (ibv_mr* region : held) {
    if (region != nullptr) must_deregister(region);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) die("write: busy SECONDS SEED NAME...");
  const uint64_t seed = std::strtoul(argv[2], nullptr, 10);
  const auto has = [&](std::string_view name) {
    for (int i = 3; i < argc; ++i) {
      if (name == argv[i]) return true;
    }
    return false;
  };
  ibv_pd* pd = open_pd();
  // One mapping at first.
  Byte* const memory = map_pages(kPages + Moves::kPages, PROT_READ | PROT_WRITE, reinterpret_cast<void*>(kPlace));
  Byte* const moving = memory + kPages * kPage;
  const Slots slots(memory, kPages);
  const bool race = has("race");
  Moves moves(moving, race ? nullptr : pd, Random(seed));
  FirstTouches first_touches;
  std::size_t children = 0, steps = 0, pieces = 0;

  std::vector<std::thread> threads;
  uint64_t next = seed;
  const auto start = [&](std::function<void(Random)> work) { threads.emplace_back(std::move(work), Random(++next)); };
  for (std::size_t i = 0; i < kRegistrars; ++i)
    start([&](Random random) { register_pieces(pd, memory, kPages, false, random); });
  if (race) start([&](Random random) { register_pieces(pd, moving, Moves::kPages, true, random); });
  for (std::size_t owner = 0; has("store") && owner + 1 < Slots::kOwners; ++owner)
    start([&, owner](Random random) { slots.store(owner, random, stop); });
  if (has("fork")) start([&](Random random) { children = slots.make_children(random, stop); });
  if (race || has("remap")) {
    start([&](Random) {
      for (; !stop; ++steps) moves.step();
    });
  }
  if (has("fault")) start([&](Random random) { pieces = first_touches.run(pd, random, stop); });

  usleep(static_cast<useconds_t>(std::atof(argv[1]) * 1e6));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  slots.check_unowned();
  moves.check_all();
  std::printf("seed %lu: %zu regions, %zu children, %zu steps, %zu first touches\n", static_cast<unsigned long>(seed),
              regions.load(), children, steps, pieces);
  if (const std::size_t bytes = not_ordinary(memory, (kPages + Moves::kPages) * kPage); bytes != 0)
    die("expected private anonymous memory after all regions; %zu bytes are not", bytes);
  return 0;
}
