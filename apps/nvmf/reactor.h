// The loop of one thread: the stack, the connections and io_uring in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/connections.h"
#include "nvmf/io_ring.h"
#include "nvmf/network.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

class Reactor {
 public:
  /// Listens. `network` outlives the reactor. Errors: those of its parts.
  static Result<std::unique_ptr<Reactor>> start(Network& network, std::vector<Subsystem> subsystems,
                                                const ListenSettings& listen, uint32_t buffers);
  ~Reactor();

  /// One pass. True when there was work. Never waits for the network or a disk.
  bool poll(Nanos now);
  /// poll(), with a rest after passes without work.
  void run_once(Nanos now);
  /// Ends all connections. Later passes tell the hosts.
  void close() { connections_->close(); }
  bool lost() const { return connections_->lost(); }
  const Connections& connections() const { return *connections_; }

 private:
  Reactor(Network& network, std::vector<Subsystem> subsystems, IoRing ring, BufferPool pool)
      : network_(network), target_(std::move(subsystems)), ring_(std::move(ring)), pool_(std::move(pool)) {}

  Network& network_;
  Target target_;
  IoRing ring_;
  BufferPool pool_;
  std::unique_ptr<Connections> connections_{};
  uint32_t idle_passes_ = 0;
};

}  // namespace uroce::nvmf
