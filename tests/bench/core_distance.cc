// How far apart two cores are: the time in ns until one has seen what the other has stored, and the other the answer,
// halved. A virtual machine's host may move its cores between caches, and whatever two threads hand each other follows.
//
// Usage: core_distance CPU CPU. Takes 10 to 100 ms.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>
#include <thread>

namespace {

constexpr uint32_t kTurns = 100'000;  // of both sides together, in one sample
constexpr int kSamples = 5;
constexpr std::chrono::seconds kLimit{5};  ///< for one sample: both threads on one busy core take turns by time slices

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

/// Alone in its cache line, and in the line that is fetched with it.
struct alignas(128) Turn {
  std::atomic<uint32_t> next{0};
};

/// Stores every second number, once the other side has stored the one before. False if that takes too long.
bool play(Turn& turn, uint32_t first) {
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  for (uint32_t mine = first; mine < kTurns; mine += 2) {
    for (uint32_t spins = 1; turn.next.load(std::memory_order_acquire) != mine; ++spins) {
      if (spins % 4096 == 0 && std::chrono::steady_clock::now() > limit) return false;
    }
    turn.next.store(mine + 1, std::memory_order_release);
  }
  return true;
}

/// The median time from one store to the next in ns; none if a CPU may not be used or does not run beside the other.
std::optional<double> distance(const std::array<int, 2>& cpus) {
  std::array<Turn, kSamples> turns;
  std::barrier start(2);
  std::atomic<bool> good{true};
  std::array<double, kSamples> times{};
  const auto side = [&](uint32_t index) {
    if (!pin(cpus[index])) good = false;
    for (int at = 0; at < kSamples; ++at) {
      start.arrive_and_wait();
      const auto begun = std::chrono::steady_clock::now();
      if (!good || !play(turns[at], index)) good = false;
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
      if (index == 0) times[at] = took.count() / kTurns;
    }
  };
  std::thread other(side, 1);
  std::thread(side, 0).join();
  other.join();
  std::ranges::sort(times);
  return good ? std::optional(times[kSamples / 2]) : std::nullopt;
}

bool parse(std::string_view text, int& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0 && out < CPU_SETSIZE;
}

}  // namespace

int main(int argc, char** argv) {
  std::array<int, 2> cpus{};
  if (argc != 3 || !parse(argv[1], cpus[0]) || !parse(argv[2], cpus[1])) {
    std::fputs("usage: core_distance CPU CPU\n", stderr);
    return 2;
  }
  const auto found = distance(cpus);
  if (!found) {
    std::fprintf(stderr, "error: CPUs %s and %s do not run two threads at once\n", argv[1], argv[2]);
    return 1;
  }
  std::printf("%.0f\n", *found);
  return 0;
}
