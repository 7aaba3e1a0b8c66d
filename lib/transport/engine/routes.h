// Header templates towards peers, shared by the queue pairs that have the same peer.
#pragma once

#include <memory>
#include <vector>

#include "transport/datagram/address_handles.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Changes between bursts only.
class Routes {
 public:
  /// Gives the QP its route. `loopback`: the peer is on the same device.
  void set(Qp& qp, wire::Route route, bool loopback);
  /// Replaces the QP's route by an equal one that other QPs use.
  void share(Qp& qp);
  /// Updates routes whose next hop has a new Ethernet address.
  void redirect(const NextHop& next_hop);

 private:
  std::shared_ptr<wire::RouteTemplate> find_or_add(const wire::RouteTemplate& wanted);

  std::vector<std::weak_ptr<wire::RouteTemplate>> known_;
};

}  // namespace uroce::transport
