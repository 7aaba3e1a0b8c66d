// The target with all that serves it: a reactor for each lcore, and the connections, which the first one has.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nvmf/connections.h"
#include "nvmf/network.h"
#include "nvmf/reactor.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

class Reactors {
 public:
  /// Listens, with Network::reactors() reactors that share `buffers`. `network` outlives this. Errors: those of its
  /// parts.
  static Result<std::unique_ptr<Reactors>> start(Network& network, std::vector<Subsystem> subsystems,
                                                 const ListenSettings& listen, uint32_t buffers);
  /// When no thread is in a reactor.
  ~Reactors();

  uint32_t count() const { return static_cast<uint32_t>(reactors_.size()); }
  /// One pass of a reactor. Each has a thread of its own, or they share one. True when there was work.
  bool poll(uint32_t index, Nanos now);
  /// poll(), with a rest after passes without work.
  void run_once(uint32_t index, Nanos now);

  // The first reactor's thread.
  /// Ends all connections. Later passes tell the hosts.
  void close() { connections_->close(); }
  /// Takes the sizes that the disks have now. Later passes tell the hosts of those that changed.
  void look_at_disks() { target_.look_at_disks(); }
  bool lost() const { return connections_->lost(); }
  const Connections& connections() const { return *connections_; }

  /// Any thread.
  const QueueCounters& counters(uint32_t index) const { return reactors_[index]->counters(); }

 private:
  Reactors(std::vector<Subsystem> subsystems, uint16_t first_id, const Bounds& bounds, std::vector<Portal> portals)
      : target_(std::move(subsystems), first_id, bounds, std::move(portals)) {}

  // Torn down from the last to the first.
  Target target_;
  Reports reports_;
  std::vector<std::unique_ptr<Reactor>> reactors_{};
  std::unique_ptr<Connections> connections_{};
};

}  // namespace uroce::nvmf
