#include "nvmf/reactors.h"

#include <sodium.h>

#include <algorithm>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

Result<std::unique_ptr<Reactors>> Reactors::start(Network& network, std::vector<Subsystem> subsystems,
                                                  const ListenSettings& listen, uint32_t buffers) {
  const auto first_id = static_cast<uint16_t>(1 + randombytes_uniform(kLastFirstId));
  auto portals = listen.portals();
  if (!portals) return std::unexpected(portals.error());
  std::unique_ptr<Reactors> made(new Reactors(std::move(subsystems), first_id, listen.bounds(), std::move(*portals)));
  const uint32_t count = network.reactors();
  std::vector<Orders*> orders;
  for (uint32_t index = 0; index < count; ++index) {
    auto reactor = Reactor::make(index, network, made->target_, made->reports_, std::max(buffers / count, 1u));
    if (!reactor) return std::unexpected(reactor.error());
    orders.push_back(&(*reactor)->orders());
    made->reactors_.push_back(std::move(*reactor));
  }
  auto connections = Connections::listen(network, std::move(orders), made->reports_, listen);
  if (!connections) return std::unexpected(connections.error());
  made->connections_ = std::move(*connections);
  return made;
}

Reactors::~Reactors() {
  // The queue pairs go before their ids.
  reactors_.clear();
}

bool Reactors::poll(uint32_t index, Nanos now) {
  const bool worked = reactors_[index]->poll(now);
  return (index == 0 && connections_->poll(now)) || worked;
}

void Reactors::run_once(uint32_t index, Nanos now) {
  Reactor& reactor = *reactors_[index];
  if (poll(index, now) || (index == 0 && connections_->look_again())) return reactor.stay_awake();
  reactor.rest();
}

}  // namespace uroce::nvmf
