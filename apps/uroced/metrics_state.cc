#include "uroced/metrics_state.h"

#include <uroce/version.h>

#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

metrics::State read_metrics(const Stack& stack, const service::Server& server) {
  metrics::State state{.version = kVersion};
  for (const auto& device : glue::StackAccess::devices(stack)) {
    const DeviceInfo info = device->info();
    state.devices.push_back({.name = info.name,
                             .link_up = info.link_up,
                             .path_mtu_bytes = mtu_bytes(info.active_mtu),
                             .counters = server.counters(*device)});
  }
  state.engines = glue::StackAccess::engines(stack);
  state.clients = server.clients();
  state.users = server.users();
  return state;
}

}  // namespace uroce::daemon
