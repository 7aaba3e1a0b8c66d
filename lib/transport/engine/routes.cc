#include "transport/engine/routes.h"

namespace uroce::transport {

std::shared_ptr<wire::RouteTemplate> Routes::find_or_add(const wire::RouteTemplate& wanted) {
  std::erase_if(known_, [](const auto& known) { return known.expired(); });
  for (const auto& known : known_) {
    auto candidate = known.lock();
    if (candidate->length == wanted.length && candidate->bytes == wanted.bytes) return candidate;
  }
  auto added = std::make_shared<wire::RouteTemplate>(wanted);
  known_.push_back(added);
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
  for (const auto& known : known_) {
    const auto route = known.lock();
    if (route == nullptr) continue;
    if (const auto mac = next_hop(wire::destination_of(*route))) wire::set_dst_mac(route->bytes.data(), *mac);
  }
}

}  // namespace uroce::transport
