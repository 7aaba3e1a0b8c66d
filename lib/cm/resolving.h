// The ids whose peers' addresses are being looked up. One look at them is bounded, and programs take turns: one that
// resolves thousands of addresses that nobody answers delays the others by little.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <unordered_map>

namespace uroce::cm {

/// Not for several threads at once. `Program` and `Id` are known by their addresses.
template <class Program, class Id>
class Resolving {
 public:
  static constexpr std::size_t kLooks = 64;          ///< ids in one look
  static constexpr std::size_t kLooksOfProgram = 8;  ///< of these, ids of one program

  bool empty() const { return turns_.empty(); }
  /// The id is not in already.
  void add(Program& program, Id& id) {
    const auto found = std::ranges::find(turns_, &program, &Turn::program);
    Turn& turn = found != turns_.end() ? *found : turns_.emplace_back(Turn{&program, {}});
    turn.ids.push_back(&id);
    places_.emplace(&id, std::prev(turn.ids.end()));
  }
  /// No effect unless the id is in.
  void remove(Program& program, Id& id) {
    const auto place = places_.find(&id);
    if (place == places_.end()) return;
    const auto turn = std::ranges::find(turns_, &program, &Turn::program);
    turn->ids.erase(place->second);
    places_.erase(place);
    if (turn->ids.empty()) turns_.erase(turn);
  }
  /// Calls `look(id)` for those whose turn it is, each once. It may remove that id, and no other.
  template <class Look>
  void look(Look look) {
    std::size_t left = kLooks;
    for (std::size_t turns = turns_.size(); turns > 0 && left > 0; --turns) {
      turns_.splice(turns_.end(), turns_, turns_.begin());
      auto& ids = turns_.back().ids;
      for (std::size_t count = std::min({ids.size(), kLooksOfProgram, left}); count > 0; --count, --left) {
        ids.splice(ids.end(), ids, ids.begin());
        look(*ids.back());
      }
    }
  }

 private:
  struct Turn {
    Program* program;
    std::list<Id*> ids;
  };

  std::list<Turn> turns_;
  std::unordered_map<Id*, typename std::list<Id*>::iterator> places_;
};

}  // namespace uroce::cm
