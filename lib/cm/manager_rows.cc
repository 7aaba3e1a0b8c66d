// A program's ids, for lists.
#include <algorithm>

#include "cm/manager_user.h"

namespace uroce::cm {

namespace {

/// The kernel's names for the states (rdma_cm_state).
const char* kernel_name(IdState state) {
  switch (state) {
    case IdState::idle: return "IDLE";
    case IdState::bound: return "ADDR_BOUND";
    case IdState::resolving: return "ADDR_QUERY";
    case IdState::addr_resolved: return "ADDR_RESOLVED";
    case IdState::route_resolved: return "ROUTE_RESOLVED";
    case IdState::listening: return "LISTEN";
    case IdState::connecting:
    case IdState::replied:
    case IdState::held:
    case IdState::requested:
    case IdState::accepted:
    case IdState::connected: return "CONNECT";
    case IdState::disconnecting:
    case IdState::disconnected: break;
  }
  return "DISCONNECT";
}

IdRow row_of(const Id& id) {
  return {.id = id.number,
          .device = id.agent != nullptr ? id.agent->device->config().name : "",
          .state = kernel_name(id.state),
          .space = id.space,
          .local = id.local == CmAddress{} ? "" : text_of(id.local),
          .remote = id.remote == CmAddress{} ? "" : text_of(id.remote)};
}

}  // namespace

std::vector<IdRow> Manager::rows(uint32_t client, uint32_t after, std::size_t most) const {
  std::vector<IdRow> out;
  const std::scoped_lock lock(impl_->mutex);
  for (const User* user : impl_->users) {
    if (user->client() != client) continue;
    const auto& ids = user->ids();
    for (auto at = ids.upper_bound(after); at != ids.end() && out.size() < most; ++at) {
      const auto found = impl_->ids.find(*at);
      if (found != impl_->ids.end()) out.push_back(row_of(*found->second));
    }
  }
  return out;
}

}  // namespace uroce::cm
