// The requests that wait for one listener's program. When the backlog is full, a request of another peer takes the
// place of one of the peer that has the most. So one peer may fill a backlog, and keeps nobody else out.
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
  /// At most `limit` requests.
  explicit Backlog(uint32_t limit) : limit_(limit) {}

  using Place = std::list<uint32_t>::iterator;

  bool full() const { return waiting_ >= limit_; }
  /// Takes in the request `id` of `peer`. Returns its place, for remove().
  Place add(const Gid& peer, uint32_t id);
  void remove(const Gid& peer, Place place);
  /// The request that makes room for another one of `peer`: the newest of the peer that has the most. There is none if
  /// `peer` would then have as many as that one. The oldest stay, so requests leave in their order.
  std::optional<uint32_t> displaced_by(const Gid& peer) const;

 private:
  using Requests = std::list<uint32_t>;  // the newest last
  void count(const Gid& peer, std::size_t before, std::size_t now);

  uint32_t limit_;
  uint32_t waiting_ = 0;
  std::map<Gid, Requests> peers_;
  std::set<std::pair<std::size_t, Gid>> by_count_;
};

}  // namespace uroce::cm
