// The stack's connection manager: making it, and its counters beside those of the engines.
#include <algorithm>
#include <iterator>

#include "base/secret.h"
#include "pmd_glue/stack_impl.h"

namespace uroce {

using namespace glue;

Result<cm::Manager*> Stack::Impl::connections() {
  const auto lock = units.front().device->runner().lock(connections_mutex_);
  if (connections_ == nullptr) {
    std::vector<std::shared_ptr<control::Device>> devices;
    for (const Unit& unit : units) devices.push_back(unit.device);
    auto started =
        cm::Manager::start(devices, Secret::fresh(), embedded ? cm::Turns::engines_thread : cm::Turns::own_thread);
    if (!started) return std::unexpected(started.error());
    connections_ = std::move(*started);
    made_connections_.store(connections_.get(), std::memory_order_release);
  }
  return connections_.get();
}

CounterList Stack::Impl::counters_of(const Unit& unit) const {
  CounterList out = unit.device->counters();
  if (const cm::Manager* const connections = made_connections_.load(std::memory_order_acquire)) {
    std::ranges::move(connections->counters(unit.device->config().name), std::back_inserter(out));
  }
  std::ranges::move(port_counters_of(unit), std::back_inserter(out));
  return out;
}

CounterList Stack::Impl::port_counters_of(const Unit& unit) const {
  CounterList out = unit.neighbourhood->counters();
  CounterList port;
  for (const auto& worker : workers_) {
    for (const auto& queue : worker->queues()) {
      if (&queue->port() != unit.port.get()) continue;
      const CounterList own = queue->counter_list();
      if (port.empty()) port.assign(own.size(), {});
      for (std::size_t i = 0; i < own.size(); ++i) port[i] = {own[i].first, port[i].second + own[i].second};
    }
  }
  out.insert(out.end(), port.begin(), port.end());
  return out;
}

}  // namespace uroce
