#include "nvmf/network.h"

#include <thread>

namespace uroce::nvmf {

Result<Network> Network::open(const NetworkSettings& settings) {
  DaemonOptions daemon{settings.socket};
  auto connections = ConnectionManager::open(daemon);
  if (!connections) return std::unexpected(connections.error());
  return Network(std::move(daemon), std::move(*connections));
}

void Network::idle(std::chrono::nanoseconds limit) { std::this_thread::sleep_for(limit); }

}  // namespace uroce::nvmf
