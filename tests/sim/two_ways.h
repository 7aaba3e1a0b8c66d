// The results by which a run with shortcuts and one by the general way are compared.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/frame_capture.h"
#include "transport/engine/engine.h"
#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::test {

struct SeenFrame {
  Nanos at;
  std::size_t host;
  Frame bytes;
  bool operator==(const SeenFrame&) const = default;
};

/// Empty where both sent the same frames at the same moments.
inline std::string first_difference(const std::vector<SeenFrame>& general, const std::vector<SeenFrame>& plain) {
  const auto text = [](const std::vector<SeenFrame>& frames, std::vector<SeenFrame>::const_iterator at) {
    if (at == frames.end()) return std::string("none");
    return fmt::format("{} ns host {}: {}", at->at.count(), at->host, wire::to_text(*wire::parse(at->bytes)));
  };
  const auto [a, b] = std::ranges::mismatch(general, plain);
  if (a == general.end() && b == plain.end()) return {};
  return fmt::format("frame {}:\n  the general way: {}\n  with shortcuts:  {}", a - general.begin(), text(general, a),
                     text(plain, b));
}

/// Counters that frames do not show: drops by reason, completions, guesses' causes.
inline std::vector<uint64_t> counters_of(const transport::Engine& engine) {
  const transport::EngineCounters& counters = engine.counters();
  const transport::Traffic traffic = engine.traffic().sum();
  std::vector<uint64_t> all{traffic.rx_packets,
                            traffic.rx_bytes,
                            traffic.tx_packets,
                            traffic.tx_bytes,
                            counters.send_completions.get(),
                            counters.error_completions.get(),
                            counters.acks_sent.get(),
                            counters.acks_received.get(),
                            counters.parked_packets.get(),
                            counters.retransmitted_packets.get()};
  for (const Counter& drop : counters.drops) all.push_back(drop.get());
  return all;
}

}  // namespace uroce::test
