// Header templates towards peers, shared by the queue pairs that have the same peer.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "transport/datagram/address_handles.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Changes between bursts only.
class Routes {
 public:
  /// With a `seed` that nobody knows, nobody can choose routes that are slow to find.
  explicit Routes(uint64_t seed = 0) : seed_(seed) {}
  /// Gives the QP its route. `loopback`: the peer is on the same device.
  void set(Qp& qp, wire::Route route, bool loopback);
  /// Replaces the QP's route by an equal one that other QPs use.
  void share(Qp& qp);
  /// Updates routes whose next hop has a new Ethernet address.
  void redirect(const NextHop& next_hop);
  /// Those in use, and perhaps as many again that nobody uses any more.
  std::size_t known() const { return known_.size(); }

 private:
  std::shared_ptr<wire::RouteTemplate> find_or_add(const wire::RouteTemplate& wanted);
  uint64_t hash_of(const wire::RouteTemplate& route) const;

  uint64_t seed_;
  // By all of the header but the next hop's address, which changes. Each peer may have many: a client chooses its flow
  // labels and traffic classes.
  std::unordered_multimap<uint64_t, std::weak_ptr<wire::RouteTemplate>> known_;
  std::size_t sweep_at_ = 16;  // routes, with those that nobody uses any more
};

}  // namespace uroce::transport
