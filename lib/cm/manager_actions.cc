// The actions of the devices' IB connection managers.
#include <utility>
#include <variant>

#include "cm/manager_impl.h"

namespace uroce::cm {

void Manager::Impl::carry_out(CmAgent& agent, CmActions&& actions) {
  for (CmAction& action : actions) {
    if (const auto* const mad = std::get_if<OutgoingMad>(&action)) {
      agent.gsi->send(mad->path, mad->mad, now);
    } else if (auto* const event = std::get_if<CmMessage>(&action)) {
      on_event(agent, std::move(*event));
    } else if (auto* const arrival = std::get_if<CmArrival>(&action)) {
      if (slows(agent, arrival->request)) continue;
      auto backlog = backlog_for(agent, arrival->request);
      carry_out(agent, agent.cm.admit(std::move(*arrival), std::move(backlog)));
    }
  }
}

Result<void> Manager::Impl::carry_out(CmAgent& agent, Result<CmActions>&& actions) {
  if (!actions) return std::unexpected(std::move(actions.error()));
  carry_out(agent, std::move(*actions));
  return {};
}

}  // namespace uroce::cm
