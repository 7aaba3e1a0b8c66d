#include "nvmf/reactor.h"

#include <chrono>

namespace uroce::nvmf {

using namespace std::chrono_literals;

namespace {

constexpr uint32_t kRingEntries = 1024;
/// Passes without work before the thread rests: some microseconds, the time between two requests of a busy host.
constexpr uint32_t kPatience = 2000;

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::start(Network& network, std::vector<Subsystem> subsystems,
                                                const ListenSettings& listen, uint32_t buffers) {
  auto ring = IoRing::open(kRingEntries);
  if (!ring) return std::unexpected(ring.error());
  auto pool = BufferPool::make(buffers);
  if (!pool) return std::unexpected(pool.error());
  std::unique_ptr<Reactor> made(new Reactor(network, std::move(subsystems), std::move(*ring), std::move(*pool)));
  auto connections = Connections::listen(network, {made->target_, made->ring_, made->pool_}, listen);
  if (!connections) return std::unexpected(connections.error());
  made->connections_ = std::move(*connections);
  return made;
}

Reactor::~Reactor() {
  if (connections_ != nullptr) connections_->close();
  // The kernel writes to the buffers of operations that have not ended.
  while (ring_.outstanding() > 0) ring_.poll();
}

bool Reactor::poll(Nanos now) {
  bool worked = network_.poll();
  worked |= connections_->poll(now);
  worked |= ring_.poll();
  return worked;
}

void Reactor::run_once(Nanos now) {
  if (poll(now)) {
    idle_passes_ = 0;
  } else if (network_.wakes()) {
    // The stack polls on for a while by itself; a disk does not wake it.
    network_.idle(ring_.outstanding() > 0 ? Nanos(20us) : Nanos(1ms));
  } else if (++idle_passes_ > kPatience) {
    // The first connection can wait a little.
    network_.idle(connections_->queues() == 0 ? Nanos(2ms) : Nanos(50us));
  }
}

}  // namespace uroce::nvmf
