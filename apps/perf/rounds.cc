#include "perf/rounds.h"

#include <fmt/format.h>

#include <cstring>

#include "perf/plan.h"
#include "perf/verify.h"

namespace uroce::perf::rounds {
namespace {

constexpr uint64_t kLine = 64;

/// Calls `visit(qp, iteration, memory)` for each message of the round. The messages start at the first slot. False,
/// without any call, when they do not fit.
template <class Visit>
bool for_each_message(const Endpoint& endpoint, const Options& options, const Round& round, Visit visit) {
  const uint64_t stride = (round.size + kLine - 1) / kLine * kLine;
  if (round.size == 0 || round.count > endpoint.exposed_size() / stride) return false;
  for (uint32_t qp = 0; qp < options.qps; ++qp) {
    for (uint64_t i = 0; i < round.count; ++i) {
      if (!visit(qp, round.first + i, std::span(endpoint.exposed(qp) + i * stride, round.size))) return true;
    }
  }
  return true;
}

std::string too_large(const Endpoint& endpoint, const Round& round) {
  return fmt::format(
      "the peer asks for {} messages of {} bytes in {} bytes of memory; are both sides of the same "
      "release?",
      round.count, round.size, endpoint.exposed_size());
}

}  // namespace

void start_words(Endpoint& endpoint, const Options& options, uint32_t own) {
  for (uint32_t qp = 0; qp < options.qps; ++qp) {
    for (uint32_t slot = 0; slot < kAtomicSlots; ++slot) {
      const uint64_t word = options.verify ? AtomicModel(options.atomic_type, {own, qp, slot}).value(0) : 0;
      std::memcpy(endpoint.exposed(qp) + slot * kLine, &word, sizeof word);
    }
  }
}

std::optional<std::string> check_words(const Endpoint& endpoint, const Options& options, const Round& round,
                                       uint32_t own) {
  for (uint32_t qp = 0; qp < options.qps; ++qp) {
    for (uint32_t slot = 0; slot < kAtomicSlots; ++slot) {
      const uint64_t operations = round.count / kAtomicSlots + (slot < round.count % kAtomicSlots ? 1 : 0);
      const uint64_t expected = AtomicModel(options.atomic_type, {own, qp, slot}).value(operations);
      uint64_t got = 0;
      std::memcpy(&got, endpoint.exposed(qp) + slot * kLine, sizeof got);
      if (got != expected) {
        return fmt::format("after {} of {}, QP {}: offset {} expected {:#x}, got {:#x}", operations,
                           atomic_name(options.atomic_type), qp, slot * kLine, expected, got);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> check_writes(const Endpoint& endpoint, const Options& options, const Round& round,
                                        uint32_t peer) {
  std::optional<std::string> found;
  const bool fits = for_each_message(endpoint, options, round,
                                     [&](uint32_t qp, uint64_t iteration, std::span<const std::byte> memory) {
                                       const PatternKey key{peer, qp, iteration};
                                       if (const auto wrong = check_pattern(memory, key))
                                         found = describe(*wrong, "WRITE", key, memory.size());
                                       return !found;
                                     });
  return fits ? found : too_large(endpoint, round);
}

std::optional<std::string> fill_for_reads(Endpoint& endpoint, const Options& options, const Round& round,
                                          uint32_t own) {
  const bool fits =
      for_each_message(endpoint, options, round, [&](uint32_t qp, uint64_t iteration, std::span<std::byte> memory) {
        fill_pattern(memory, {own, qp, iteration});
        return true;
      });
  return fits ? std::nullopt : std::optional(too_large(endpoint, round));
}

}  // namespace uroce::perf::rounds
