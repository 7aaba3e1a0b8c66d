#include "transport/engine/routes.h"

namespace uroce::transport {

// FNV-1a.
uint64_t Routes::hash_of(const wire::RouteTemplate& route) const {
  constexpr std::size_t kMacBytes = 6;
  uint64_t hash = 0xcbf29ce484222325 ^ seed_;
  for (std::size_t i = kMacBytes; i < route.length; ++i) {
    hash = (hash ^ static_cast<uint64_t>(route.bytes[i])) * 0x100000001b3;
  }
  return hash;
}

std::shared_ptr<wire::RouteTemplate> Routes::find_or_add(const wire::RouteTemplate& wanted) {
  const uint64_t hash = hash_of(wanted);
  const auto [begin, end] = known_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    auto candidate = at->second.lock();
    if (candidate == nullptr) continue;
    if (candidate->length == wanted.length && candidate->bytes == wanted.bytes) return candidate;
  }
  if (known_.size() >= sweep_at_) {
    std::erase_if(known_, [](const auto& known) { return known.second.expired(); });
    sweep_at_ = 2 * known_.size() + 16;
  }
  auto added = std::make_shared<wire::RouteTemplate>(wanted);
  known_.emplace(hash, added);
  return added;
}

void Routes::set(Qp& qp, wire::Route route, bool loopback) {
  if (qp.ecn != 0) route.traffic_class &= 0xfc;  // data packets set the field, others must not
  qp.cold->route = find_or_add(wire::make_template(route));
  qp.route = qp.cold->route.get();
  qp.loopback = loopback;
}

void Routes::share(Qp& qp) {
  if (qp.route == nullptr) return;
  qp.cold->route = find_or_add(*qp.route);
  qp.route = qp.cold->route.get();
}

void Routes::redirect(const NextHop& next_hop) {
  for (const auto& [hash, known] : known_) {
    const auto route = known.lock();
    if (route == nullptr) continue;
    if (const auto mac = next_hop(wire::destination_of(*route))) wire::set_dst_mac(route->bytes.data(), *mac);
  }
}

}  // namespace uroce::transport
