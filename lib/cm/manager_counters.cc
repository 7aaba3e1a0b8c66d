// The counters of a device's connection manager and QP1, and its peers' guesses.
#include <algorithm>

#include "cm/manager_impl.h"

namespace uroce::cm {

namespace {

constexpr std::pair<const char*, Counter IbCmCounters::*> kMessages[] = {
    {"cm_req_sent", &IbCmCounters::req_sent},
    {"cm_req_received", &IbCmCounters::req_received},
    {"cm_mra_sent", &IbCmCounters::mra_sent},
    {"cm_mra_received", &IbCmCounters::mra_received},
    {"cm_rej_sent", &IbCmCounters::rej_sent},
    {"cm_rej_received", &IbCmCounters::rej_received},
    {"cm_rep_sent", &IbCmCounters::rep_sent},
    {"cm_rep_received", &IbCmCounters::rep_received},
    {"cm_rtu_sent", &IbCmCounters::rtu_sent},
    {"cm_rtu_received", &IbCmCounters::rtu_received},
    {"cm_dreq_sent", &IbCmCounters::dreq_sent},
    {"cm_dreq_received", &IbCmCounters::dreq_received},
    {"cm_drep_sent", &IbCmCounters::drep_sent},
    {"cm_drep_received", &IbCmCounters::drep_received},
    {"cm_sidr_req_sent", &IbCmCounters::sidr_req_sent},
    {"cm_sidr_req_received", &IbCmCounters::sidr_req_received},
    {"cm_sidr_rep_sent", &IbCmCounters::sidr_rep_sent},
    {"cm_sidr_rep_received", &IbCmCounters::sidr_rep_received},
    {"cm_resent", &IbCmCounters::resent},
    {"cm_duplicates", &IbCmCounters::duplicates},
    {"cm_malformed", &IbCmCounters::malformed},
    {"cm_unknown_id", &IbCmCounters::unknown_id},
    {"cm_out_of_state", &IbCmCounters::out_of_state},
    {"cm_no_listener", &IbCmCounters::no_listener},
    {"cm_backlog_full", &IbCmCounters::backlog_full},
    {"cm_withdrawn", &IbCmCounters::withdrawn},
    {"cm_stale", &IbCmCounters::stale},
    {"cm_table_full", &IbCmCounters::table_full},
};
constexpr std::pair<const char*, Counter GsiCounters::*> kDatagrams[] = {
    {"qp1_sent", &GsiCounters::sent},           {"qp1_received", &GsiCounters::received},
    {"qp1_malformed", &GsiCounters::malformed}, {"qp1_unreachable", &GsiCounters::unreachable},
    {"qp1_overflow", &GsiCounters::overflow},
};

constexpr const char* kSlowedName = "cm_slowed";

}  // namespace

// The agents stay the same while the manager runs.
CmAgent* Manager::Impl::agent_called(const std::string& device) const {
  const auto name_of = [](const auto& agent) -> const std::string& { return agent->device->config().name; };
  const auto found = std::ranges::find(agents, device, name_of);
  return found != agents.end() ? found->get() : nullptr;
}

std::vector<std::pair<std::string, uint64_t>> Manager::counters(const std::string& device) const {
  const CmAgent* const agent = impl_->agent_called(device);
  return agent != nullptr ? Impl::counters_of(*agent) : std::vector<std::pair<std::string, uint64_t>>();
}

std::vector<std::pair<std::string, uint64_t>> Manager::Impl::counters_of(const CmAgent& agent) {
  std::vector<std::pair<std::string, uint64_t>> all;
  for (const auto& [name, counter] : kMessages) all.emplace_back(name, (agent.cm.counters().*counter).get());
  for (const auto& [name, counter] : kDatagrams) all.emplace_back(name, (agent.gsi->counters().*counter).get());
  all.emplace_back(kSlowedName, agent.slowed.get());
  return all;
}

void Manager::Impl::adopt_counters(CmAgent& agent, const std::vector<std::pair<std::string, uint64_t>>& counts) {
  for (const auto& [name, count] : counts) {
    for (const auto& [message, counter] : kMessages) {
      if (message == name) agent.cm.count_before(counter, count);
    }
    for (const auto& [datagram, counter] : kDatagrams) {
      if (datagram == name) agent.gsi->count_before(counter, count);
    }
    if (name == kSlowedName) agent.slowed.add(count);
  }
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
