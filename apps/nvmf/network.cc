#include "nvmf/network.h"

#include <cerrno>
#include <thread>
#include <utility>

namespace uroce::nvmf {

namespace {

class DaemonNetwork final : public Network {
 public:
  DaemonNetwork(DaemonOptions daemon, ConnectionManager connections)
      : daemon_(std::move(daemon)), connections_(std::move(connections)) {}

  ConnectionManager& connections() override { return connections_; }
  Result<Context> device(const std::string& name) override { return open_daemon_device(name, daemon_); }
  bool poll() override { return false; }
  void idle(std::chrono::nanoseconds limit) override { std::this_thread::sleep_for(limit); }
  bool wakes() const override { return false; }

 private:
  DaemonOptions daemon_;
  ConnectionManager connections_;
};

}  // namespace

Result<void> Network::start_loop(uint32_t reactor, const std::function<void()>& /*loop*/) {
  return fail(EINVAL, "cannot start reactor " + std::to_string(reactor) +
                          ": over the daemon's devices there is one, number 0; more need a port of the program's own "
                          "(without --daemon) and --lcores");
}

Result<std::unique_ptr<Network>> open_daemon_network(const DaemonOptions& daemon) {
  auto connections = ConnectionManager::open(daemon);
  if (!connections) return std::unexpected(connections.error());
  return std::make_unique<DaemonNetwork>(daemon, std::move(*connections));
}

}  // namespace uroce::nvmf
