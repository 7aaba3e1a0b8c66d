#include "transport/engine/routes.h"

namespace uroce::transport {

void Routes::set(Qp& qp, wire::Route route, bool loopback) {
  if (qp.ecn != 0) route.traffic_class &= 0xfc;  // data packets set the field, others must not
  const wire::RouteTemplate wanted = wire::make_template(route);
  std::shared_ptr<wire::RouteTemplate> shared;
  std::erase_if(known_, [](const auto& known) { return known.expired(); });
  for (const auto& known : known_) {
    auto candidate = known.lock();
    if (candidate->length == wanted.length && candidate->bytes == wanted.bytes) shared = candidate;
  }
  if (shared == nullptr) {
    shared = std::make_shared<wire::RouteTemplate>(wanted);
    known_.push_back(shared);
  }
  qp.cold->route = shared;
  qp.route = shared.get();
  qp.loopback = loopback;
}

void Routes::redirect(const NextHop& next_hop) {
  for (const auto& known : known_) {
    const auto route = known.lock();
    if (route == nullptr) continue;
    if (const auto mac = next_hop(wire::destination_of(*route))) wire::set_dst_mac(route->bytes.data(), *mac);
  }
}

}  // namespace uroce::transport
