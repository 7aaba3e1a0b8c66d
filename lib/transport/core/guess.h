// Counts the guesses of peers (base/guess_table.h).
#pragma once

#include <optional>

#include "base/psn.h"
#include "transport/core/context.h"

namespace uroce::transport {

/// Farther from the expected PSN than any window reaches, ours (1024) or an RNIC's. Of 256 guesses 254 are beyond it.
inline constexpr int32_t kPlausiblePsns = 1 << 16;

[[gnu::cold, gnu::noinline]] inline void count_guess(Context& ctx, const wire::Packet& packet, Guess kind) {
  ctx.counters.guesses.add();
  ctx.guesses.add(packet.source(), kind, ctx.now);
}

/// For a packet that is not the next one.
inline void count_if_psn_is_guessed(Context& ctx, const wire::Packet& packet, Psn expected) {
  const int32_t away = distance(packet.bth.psn, expected);
  if (away > kPlausiblePsns || away < -kPlausiblePsns) [[unlikely]]
    count_guess(ctx, packet, Guess::psn);
}

/// The guess that a packet was which admit() refuses for `reason`.
inline std::optional<Guess> guess_of(wire::Drop reason) {
  if (reason == wire::Drop::qp_unknown) return Guess::qpn;
  if (reason == wire::Drop::source_not_peer) return Guess::source;
  return std::nullopt;
}

}  // namespace uroce::transport
