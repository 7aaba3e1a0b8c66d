// Guesses at numbers: frames and messages that name what their sender should not know or should know better, by the
// sender's address. One such frame may be an accident; thousands are not.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include <uroce/types.h>

#include "base/time.h"

namespace uroce {

enum class Guess : uint8_t {
  qpn,     ///< a queue pair that does not exist
  source,  ///< a connected queue pair, from an address that is not its peer's
  psn,     ///< a PSN far from all that the connection expects
  rkey,    ///< memory that the key does not open
  qkey,    ///< a Q_Key that is not the queue pair's
  epoch,   ///< a HELLO or SACK of another connection
  cm_id,   ///< a connection that the connection manager does not have
};
inline constexpr std::array<std::string_view, 7> kGuessNames{"qpn", "source", "psn", "rkey", "qkey", "epoch", "cm_id"};

/// The guesses of one address.
struct PeerGuesses {
  Gid peer{};
  std::array<uint64_t, kGuessNames.size()> counts{};  ///< by Guess
  Nanos ago{0};                                       ///< since the last one

  uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
};

/// Adds what another table has. The result is sorted by address.
inline void merge_guesses(std::vector<PeerGuesses>& all, const std::vector<PeerGuesses>& more) {
  for (const PeerGuesses& one : more) {
    const auto at = std::ranges::lower_bound(all, one.peer, {}, &PeerGuesses::peer);
    if (at == all.end() || at->peer != one.peer) {
      all.insert(at, one);
      continue;
    }
    for (std::size_t kind = 0; kind < one.counts.size(); ++kind) at->counts[kind] += one.counts[kind];
    at->ago = std::min(at->ago, one.ago);
  }
}

/// Of fixed size: when it is full, the address that has not guessed for the longest time leaves. One thread at a time;
/// allocates nothing but in report().
class GuessTable {
 public:
  static constexpr std::size_t kPeers = 64;

  void add(const Gid& peer, Guess kind, Nanos now) {
    if (used_ == 0 || entries_[latest_].peer != peer) latest_ = find_or_replace(peer);
    Entry& entry = entries_[latest_];
    ++entry.counts[static_cast<std::size_t>(kind)];
    entry.last = now;
  }
  /// Adds an entry of another table's report().
  void adopt(const PeerGuesses& one, Nanos now) {
    Entry& entry = entries_[find_or_replace(one.peer)];
    for (std::size_t kind = 0; kind < one.counts.size(); ++kind) entry.counts[kind] += one.counts[kind];
    entry.last = std::max(entry.last, now - one.ago);
  }
  std::vector<PeerGuesses> report(Nanos now) const {
    std::vector<PeerGuesses> all;
    for (std::size_t i = 0; i < used_; ++i) {
      const Entry& entry = entries_[i];
      merge_guesses(all, {{.peer = entry.peer, .counts = entry.counts, .ago = now - entry.last}});
    }
    return all;
  }

 private:
  struct Entry {
    Gid peer{};
    std::array<uint64_t, kGuessNames.size()> counts{};
    Nanos last{0};
  };
  std::size_t find_or_replace(const Gid& peer) {
    std::size_t oldest = 0;
    for (std::size_t i = 0; i < used_; ++i) {
      if (entries_[i].peer == peer) return i;
      if (entries_[i].last < entries_[oldest].last) oldest = i;
    }
    const std::size_t at = used_ < kPeers ? used_++ : oldest;
    entries_[at] = {.peer = peer};
    return at;
  }

  std::array<Entry, kPeers> entries_{};
  std::size_t used_ = 0;
  std::size_t latest_ = 0;  // who guessed last, and mostly does so again
};

}  // namespace uroce
