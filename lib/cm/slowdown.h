// Slows the connections of addresses whose earlier ones ended because they named keys that open nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <uroce/types.h>

#include "base/time.h"
#include "cm/snapshot.h"

namespace uroce::cm {

/// On RC a wrong key ends the connection, so a peer that guesses keys needs a connection for each. After kWrong such
/// ends an address gets kAtOnce more connections with the same user, and then one for each kInterval. Its other
/// requests are as if they had been lost.
///
/// An honest peer may be accused: by a fault of its program, or by a stranger who forges its address, for which each
/// accusation takes 2^24 frames. Its requests get through all the same. All are free kLongest after the last wrong key,
/// and Linux repeats a request for 65 s. A user's slowdown concerns no other user, who may share the address.
class Slowdown {
 public:
  static constexpr uint32_t kWrong = 4;    ///< ends that follow each other within kLongest
  static constexpr uint32_t kAtOnce = 16;  ///< connections saved up: a REQ is repeated after 4.3 s, beside others
  static constexpr Nanos kInterval = std::chrono::seconds(1);
  static constexpr Nanos kLongest = std::chrono::seconds(40);
  static constexpr std::size_t kPeers = 64;  ///< whose ends are remembered, the newest

  /// `connections` of `peer` with `user` (a uid) have ended by wrong keys.
  void on_wrong_keys(const Gid& peer, uint32_t user, uint32_t connections, Nanos now) {
    std::erase_if(peers_, [now](const auto& one) { return now - one.second.last >= kLongest; });
    const Key key{peer, user};
    if (peers_.size() == kPeers && !peers_.contains(key)) {
      peers_.erase(std::ranges::min_element(peers_, {}, [](const auto& one) { return one.second.last; }));
    }
    Ends& ends = peers_.try_emplace(key, Ends{.wrong = 0, .last = now, .saved = kAtOnce, .counted = now}).first->second;
    ends.wrong += connections;
    ends.last = now;
  }
  /// May `peer` have a connection more with `user` now?
  bool admits(const Gid& peer, uint32_t user, Nanos now) {
    const auto found = peers_.find({peer, user});
    if (found == peers_.end()) return true;
    Ends& ends = found->second;
    if (ends.wrong < kWrong || now - ends.last >= kLongest) return true;
    const auto earned = (now - ends.counted) / kInterval;
    ends.counted += earned * kInterval;
    ends.saved = static_cast<uint32_t>(std::min<int64_t>(ends.saved + earned, kAtOnce));
    if (ends.saved == 0) return false;
    --ends.saved;
    return true;
  }
  /// True where admits() says yes to all.
  bool empty() const { return peers_.empty(); }

  std::vector<SlowedSnapshot> snapshot(Nanos now) const {
    std::vector<SlowedSnapshot> out;
    for (const auto& [key, ends] : peers_) {
      out.push_back({.peer = key.first,
                     .user = key.second,
                     .wrong = ends.wrong,
                     .saved = ends.saved,
                     .last = now - ends.last,
                     .counted = now - ends.counted});
    }
    return out;
  }
  void adopt(const SlowedSnapshot& one, Nanos now) {
    if (peers_.size() == kPeers || one.last < Nanos(0) || one.last >= kLongest || one.counted < Nanos(0)) return;
    peers_.try_emplace({one.peer, one.user}, Ends{.wrong = one.wrong,
                                                  .last = now - one.last,
                                                  .saved = std::min(one.saved, kAtOnce),
                                                  .counted = now - std::min(one.counted, kLongest)});
  }

 private:
  using Key = std::pair<Gid, uint32_t>;
  struct Ends {
    uint32_t wrong;
    Nanos last;
    uint32_t saved;  // connections
    Nanos counted;   // until when `saved` grew
  };
  std::map<Key, Ends> peers_;
};

}  // namespace uroce::cm
