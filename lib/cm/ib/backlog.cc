#include "cm/ib/backlog.h"

#include <iterator>

namespace uroce::cm {

Backlog::Place Backlog::add(const Gid& peer, uint32_t id) {
  Requests& requests = peers_[peer];
  requests.push_back(id);
  count(peer, requests.size() - 1, requests.size());
  all_.push_back(id);
  return {std::prev(requests.end()), std::prev(all_.end())};
}

void Backlog::remove(const Gid& peer, Place place) {
  const auto found = peers_.find(peer);
  Requests& requests = found->second;
  requests.erase(place.of_peer);
  count(peer, requests.size() + 1, requests.size());
  if (requests.empty()) peers_.erase(found);
  all_.erase(place.of_all);
}

std::optional<uint32_t> Backlog::displaced_by(const Gid& peer) const {
  if (by_count_.empty()) return std::nullopt;
  const auto& [most, holder] = *by_count_.rbegin();
  const auto own = peers_.find(peer);
  const std::size_t has = own == peers_.end() ? 0 : own->second.size();
  if (has + 1 < most) return peers_.at(holder).back();
  return full_ == Full::drops_oldest ? std::optional(all_.front()) : std::nullopt;
}

void Backlog::count(const Gid& peer, std::size_t before, std::size_t now) {
  if (before != 0) by_count_.erase({before, peer});
  if (now != 0) by_count_.emplace(now, peer);
}

}  // namespace uroce::cm
