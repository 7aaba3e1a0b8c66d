// The counters of a device's connection manager and QP1, and its peers' guesses.
#include <algorithm>

#include "cm/manager_impl.h"

namespace uroce::cm {

// The agents stay the same while the manager runs.
const CmAgent* Manager::Impl::agent_called(const std::string& device) const {
  const auto name_of = [](const auto& agent) -> const std::string& { return agent->device->config().name; };
  const auto found = std::ranges::find(agents, device, name_of);
  return found != agents.end() ? found->get() : nullptr;
}

std::vector<std::pair<std::string, uint64_t>> Manager::counters(const std::string& device) const {
  using C = IbCmCounters;
  static constexpr std::pair<const char*, Counter C::*> kMessages[] = {
      {"cm_req_sent", &C::req_sent},
      {"cm_req_received", &C::req_received},
      {"cm_mra_sent", &C::mra_sent},
      {"cm_mra_received", &C::mra_received},
      {"cm_rej_sent", &C::rej_sent},
      {"cm_rej_received", &C::rej_received},
      {"cm_rep_sent", &C::rep_sent},
      {"cm_rep_received", &C::rep_received},
      {"cm_rtu_sent", &C::rtu_sent},
      {"cm_rtu_received", &C::rtu_received},
      {"cm_dreq_sent", &C::dreq_sent},
      {"cm_dreq_received", &C::dreq_received},
      {"cm_drep_sent", &C::drep_sent},
      {"cm_drep_received", &C::drep_received},
      {"cm_sidr_req_sent", &C::sidr_req_sent},
      {"cm_sidr_req_received", &C::sidr_req_received},
      {"cm_sidr_rep_sent", &C::sidr_rep_sent},
      {"cm_sidr_rep_received", &C::sidr_rep_received},
      {"cm_resent", &C::resent},
      {"cm_duplicates", &C::duplicates},
      {"cm_malformed", &C::malformed},
      {"cm_unknown_id", &C::unknown_id},
      {"cm_out_of_state", &C::out_of_state},
      {"cm_no_listener", &C::no_listener},
      {"cm_backlog_full", &C::backlog_full},
      {"cm_withdrawn", &C::withdrawn},
      {"cm_stale", &C::stale},
      {"cm_table_full", &C::table_full},
  };
  static constexpr std::pair<const char*, Counter GsiCounters::*> kDatagrams[] = {
      {"qp1_sent", &GsiCounters::sent},           {"qp1_received", &GsiCounters::received},
      {"qp1_malformed", &GsiCounters::malformed}, {"qp1_unreachable", &GsiCounters::unreachable},
      {"qp1_overflow", &GsiCounters::overflow},
  };
  const CmAgent* const agent = impl_->agent_called(device);
  std::vector<std::pair<std::string, uint64_t>> all;
  if (agent == nullptr) return all;
  for (const auto& [name, counter] : kMessages) all.emplace_back(name, (agent->cm.counters().*counter).get());
  for (const auto& [name, counter] : kDatagrams) all.emplace_back(name, (agent->gsi->counters().*counter).get());
  all.emplace_back("cm_slowed", agent->slowed.get());
  return all;
}

Slowed Manager::slowed(const std::string& device) const {
  const CmAgent* const agent = impl_->agent_called(device);
  if (agent == nullptr || agent->slowed.get() == 0) return {};
  const std::scoped_lock lock(impl_->mutex);
  return {.requests = agent->slowed.get(), .last = agent->last_slowed};
}

std::vector<PeerGuesses> Manager::guesses(const std::string& device) const {
  const CmAgent* const agent = impl_->agent_called(device);
  if (agent == nullptr) return {};
  const std::scoped_lock lock(impl_->mutex);
  return agent->cm.guesses(steady_now());
}

uint64_t Manager::guess_count(const std::string& device) const {
  const CmAgent* const agent = impl_->agent_called(device);
  return agent != nullptr ? agent->cm.counters().unknown_id.get() : 0;
}

}  // namespace uroce::cm
