// The requests that wait for one listener's program, or for their peers' Ethernet addresses. When the backlog is full,
// a request of another peer takes the place of one of the peer that has the most. So one peer may fill a backlog, and
// keeps nobody else out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <uroce/types.h>

namespace uroce::cm {

/// Not thread-safe.
class Backlog {
 public:
  /// The fate of a request that has no claim to another's place in a full backlog.
  enum class Full : uint8_t {
    refuses,
    drops_oldest,  ///< it takes the place of the oldest of all
  };
  /// At most `limit` requests.
  explicit Backlog(uint32_t limit, Full full = Full::refuses) : limit_(limit), full_(full) {}

  using Requests = std::list<uint32_t>;  // the newest last
  struct Place {
    Requests::iterator of_peer, of_all;
  };

  uint32_t limit() const { return limit_; }
  bool full() const { return all_.size() >= limit_; }
  const Requests& requests() const { return all_; }
  /// Takes in the request `id` of `peer`. Returns its place, for remove().
  Place add(const Gid& peer, uint32_t id);
  void remove(const Gid& peer, Place place);
  /// The request that makes room for another one of `peer`: the newest of the peer that has the most. Where `peer`
  /// would then have as many as that one, it is as `Full` says. With `refuses` the oldest stay, so requests leave in
  /// their order.
  std::optional<uint32_t> displaced_by(const Gid& peer) const;

 private:
  void count(const Gid& peer, std::size_t before, std::size_t now);

  uint32_t limit_;
  Full full_;
  Requests all_;
  std::map<Gid, Requests> peers_;
  std::set<std::pair<std::size_t, Gid>> by_count_;
};

}  // namespace uroce::cm
