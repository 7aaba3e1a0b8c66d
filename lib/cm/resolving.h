// The ids whose peers' addresses are being looked up. One look at them is bounded, and programs take turns: one that
// resolves thousands of addresses that nobody answers delays the others by little. The longer an id has waited, the
// less often it is looked at, because a silent peer must not cost the port work every millisecond. After a pause of the
// machine, or where the threads of the port wait for their cores, the answer may lie unread beside the timer that is
// over. An id then has a little time more, a few times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/time.h"

namespace uroce::cm {

/// Not for several threads at once. `Program` and `Id` are known by their addresses.
template <class Program, class Id>
class Resolving {
 public:
  static constexpr std::size_t kLooks = 64;                         ///< ids in one look
  static constexpr std::size_t kLooksOfProgram = 8;                 ///< of these, ids of one program
  static constexpr Nanos kInterval = std::chrono::milliseconds(1);  ///< between looks, and of an id that is new
  static constexpr Nanos kPause = std::chrono::milliseconds(100);   ///< a look that is later by more follows a pause
  static constexpr Nanos kGrace = std::chrono::milliseconds(500);   ///< more time: once after a pause, and
  static constexpr int kGraces = 10;                                ///< so often while others are late
  static constexpr int kPart = 8;  ///< an id is looked at again after this part of the time that it has waited

  bool empty() const { return turns_.empty(); }
  /// When look() must be called next. Not while empty().
  Nanos next_look() const { return std::max(earliest_, looked_ + kInterval); }
  /// The id is not in already, and was looked at now. `until`: kNever for no end.
  void add(Program& program, Id& id, Nanos now, Nanos until) {
    const Nanos due = std::min(now + kInterval, until);
    earliest_ = empty() ? due : std::min(earliest_, due);
    const auto found = std::ranges::find(turns_, &program, &Turn::program);
    Turn& turn = found != turns_.end() ? *found : turns_.emplace_back(Turn{&program, {}});
    places_.emplace(&id, turn.due.emplace(due, Waiting{&id, now, until}));
  }
  /// No effect unless the id is in.
  void remove(Program& program, Id& id) {
    const auto place = places_.find(&id);
    if (place == places_.end()) return;
    const auto turn = std::ranges::find(turns_, &program, &Turn::program);
    turn->due.erase(place->second);
    places_.erase(place);
    if (turn->due.empty()) turns_.erase(turn);
  }
  /// nullopt unless the id is in. kNever for no end.
  std::optional<Nanos> until(const Id& id) const {
    const auto place = places_.find(const_cast<Id*>(&id));
    return place != places_.end() ? std::optional(place->second->second.until) : std::nullopt;
  }
  /// Calls `look(id, over)` for those whose turn it is, each once. It may remove that id, and no other. `over`: the
  /// id's time is up, and it must be removed. `late()`: whether an answer may lie unread.
  template <class Late, class Look>
  void look(Nanos now, Late late, Look look) {
    if (empty() || now < next_look()) return;
    if (now - next_look() > kPause) grace_ = now + kGrace;
    if (late()) late_ = now + kGrace;
    looked_ = now;
    std::size_t left = kLooks;
    for (std::size_t turns = turns_.size(); turns > 0 && left > 0; --turns) {
      turns_.splice(turns_.end(), turns_, turns_.begin());
      auto& due = turns_.back().due;
      std::size_t count = std::min({due.size(), kLooksOfProgram, left});
      for (; count > 0 && due.begin()->first <= now; --count, --left) {
        Waiting one = due.begin()->second;
        due.erase(due.begin());
        if (now >= one.until && is_given_more(one, now)) one.until = now + kGrace;
        const Nanos next = now + std::max(kInterval, (now - one.since) / kPart);
        places_[one.id] = due.emplace(std::min(next, one.until), one);
        look(*one.id, now >= one.until);
      }
    }
    earliest_ = kNever;
    for (const Turn& turn : turns_) earliest_ = std::min(earliest_, turn.due.begin()->first);
  }

 private:
  struct Waiting {
    Id* id;
    Nanos since, until;
    bool prolonged = false;
    int graces = 0;
  };
  using Due = std::multimap<Nanos, Waiting>;
  struct Turn {
    Program* program;
    Due due;
  };

  bool is_given_more(Waiting& one, Nanos now) const {
    if (now < late_ && one.graces < kGraces) return ++one.graces > 0;
    return now < grace_ && !std::exchange(one.prolonged, true);
  }

  std::list<Turn> turns_;
  std::unordered_map<Id*, typename Due::iterator> places_;
  Nanos earliest_{0};  // no id is due before
  Nanos looked_{0};
  Nanos grace_{0}, late_{0};  // until then an id whose time is up is given more: after a pause, and where one is late
};

}  // namespace uroce::cm
