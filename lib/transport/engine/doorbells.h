// The doorbell rings that an engine polls: one per poster, and others of posters with many queue pairs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "queues/doorbell.h"

namespace uroce::transport {

/// The ring that a doorbell came from, and its client.
struct DoorbellFrom {
  uint32_t id;
  uint16_t client;
};

class Doorbells {
 public:
  /// Not counting what add() adds.
  static constexpr std::size_t kMaxRings = 1024;

  /// In a cache line of its own, and User too: what an engine writes while it polls, no other engine writes.
  struct alignas(64) Ring : DoorbellFrom {
    queues::DoorbellReader reader;
  };

  /// `client`: who posts, for the caller of poll(). Rings of one `user` share its turns. False: kMaxRings are attached.
  bool attach(queues::DoorbellReader reader, uint32_t id, uint16_t client = 0, uint16_t user = 0) {
    if (full()) return false;
    ++count_;
    auto group = std::ranges::find(users_, user, &User::number);
    if (group == users_.end()) group = users_.insert(group, User{.number = user, .rings = {}});
    group->rings.push_back({{id, client}, reader});
    share_polls();
    return true;
  }
  bool full() const { return count_ == kMaxRings; }
  /// Another ring of the poster that has ring `id`, under the same number.
  void add(queues::DoorbellReader reader, uint32_t id) {
    for (User& user : users_) {
      const auto first = std::ranges::find(user.rings, id, &Ring::id);
      if (first == user.rings.end()) continue;
      user.rings.push_back({{id, first->client}, reader});
      return share_polls();
    }
  }
  void detach(uint32_t id) {
    for (User& user : users_) {
      if (std::erase_if(user.rings, [id](const Ring& ring) { return ring.id == id; }) != 0) --count_;
    }
    std::erase_if(users_, [](const User& user) { return user.rings.empty(); });
    share_polls();
  }
  /// DoorbellReader::position() of each ring `id`.
  std::vector<uint32_t> positions(uint32_t id) const {
    std::vector<uint32_t> found;
    for (const User& user : users_) {
      for (const Ring& ring : user.rings) {
        if (ring.id == id) found.push_back(ring.reader.position());
      }
    }
    return found;
  }
  /// Calls `take(token, ring)` for at most `limit` doorbells of each user. Looks at kRingsPerPoll rings at most, or at
  /// one of each user if these are more; the next call goes on behind them. Returns whether there were any.
  template <class Take>
  bool poll(uint32_t limit, Take&& take) {
    bool any = false;
    for (User& user : users_) {
      uint32_t left = limit;
      for (std::size_t rings = user.rings_per_poll; rings > 0 && left > 0; --rings) {
        Ring& ring = user.rings[user.next];
        if (++user.next == user.rings.size()) user.next = 0;
        for (; left > 0; --left) {
          const uint32_t token = ring.reader.take();
          if (token == 0) break;
          any = true;
          take(token, static_cast<const Ring&>(ring));
        }
      }
    }
    return any;
  }
  /// True: poll() would find nothing. False says nothing where several rings are attached.
  bool quiet() const { return only_ != nullptr && only_->reader.empty(); }
  /// The ring, if only one is attached and it has a single doorbell, which poll() has not taken; otherwise nullptr.
  Ring* lone() { return only_ != nullptr && only_->reader.holds_one() ? only_ : nullptr; }
  bool empty() const {
    return std::ranges::all_of(users_, [](const User& user) {
      return std::ranges::all_of(user.rings, [](const Ring& ring) { return ring.reader.empty(); });
    });
  }
  void set_sleeping(bool sleeping) {
    for (User& user : users_) {
      for (Ring& ring : user.rings) ring.reader.set_sleeping(sleeping);
    }
  }

 private:
  /// An empty ring costs a cache line that another core may have written.
  static constexpr std::size_t kRingsPerPoll = 64;

  struct alignas(64) User {
    uint16_t number;
    std::vector<Ring> rings;
    std::size_t next = 0;
    std::size_t rings_per_poll = 0;
  };

  // A user with few rings leaves its part to the others.
  void share_polls() {
    only_ = users_.size() == 1 && users_.front().rings.size() == 1 ? &users_.front().rings.front() : nullptr;
    std::size_t left = kRingsPerPoll;
    std::size_t users = users_.size();
    std::vector<User*> by_size;
    for (User& user : users_) by_size.push_back(&user);
    std::ranges::sort(by_size, {}, [](const User* user) { return user->rings.size(); });
    for (User* user : by_size) {
      user->rings_per_poll = std::min(user->rings.size(), std::max<std::size_t>(1, left / users--));
      left -= std::min(left, user->rings_per_poll);
      user->next = 0;
    }
  }

  std::vector<User> users_;
  Ring* only_ = nullptr;  ///< of all; nullptr where there are several or none
  std::size_t count_ = 0;
};

}  // namespace uroce::transport
