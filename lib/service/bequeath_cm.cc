#include "service/bequeath_cm.h"

#include <map>
#include <utility>

#include "control/qp.h"
#include "service/cm_rows.h"

namespace uroce::service {
namespace {

/// A queue pair's device among the program's, and its number there.
using QpName = std::pair<uint32_t, uint32_t>;

std::map<const control::ControlQp*, QpName> names_of_qps(std::span<ClientState* const> devices) {
  std::map<const control::ControlQp*, QpName> out;
  for (uint32_t device = 0; device < devices.size(); ++device) {
    for (const auto& [id, qp] : devices[device]->qps.after(0, SIZE_MAX)) out.emplace(qp.get(), QpName(device, id));
  }
  return out;
}

}  // namespace

void bequeath(cm::Manager& manager, EstateWriter& estate) {
  const cm::ManagerSnapshot all = manager.snapshot();
  estate.add(CmManagerRow{.next_number = all.next_number, .slowed = all.slowed});
  for (const cm::AgentSnapshot& agent : all.agents) {
    estate.add(CmAgentRow{.device = agent.device,
                          .key = agent.ids.key,
                          .ids_given = agent.ids.given,
                          .last_slowed = agent.last_slowed,
                          .counters = agent.counters,
                          .guesses = agent.guesses});
    for (const auto& connection : agent.connections) estate.add(CmConnectionRow{connection});
    for (const auto& mad : agent.gsi.outgoing) estate.add(CmOutgoingRow{mad});
    for (const auto& mad : agent.gsi.incoming) estate.add(CmIncomingRow{mad});
  }
}

Result<void> bequeath_connections(const Program& program, std::span<ClientState* const> devices, EstateWriter& estate) {
  if (program.connections == nullptr) return {};
  cm::ProgramSnapshot all = program.connections->snapshot();
  estate.add(CmProgramRow{all.last_channel});
  for (const cm::ChannelSnapshot& channel : all.channels) {
    const auto read_end = estate.add(channel.read_end);
    if (!read_end) return std::unexpected(read_end.error());
    const auto write_end = estate.add(channel.write_end);
    if (!write_end) return std::unexpected(write_end.error());
    estate.add(
        CmChannelRow{.number = channel.number, .owed = channel.owed, .read_end = *read_end, .write_end = *write_end});
  }
  const auto names = names_of_qps(devices);
  for (cm::IdSnapshot& id : all.ids) {
    const auto found = names.find(id.qp.get());
    const auto [device, qp] = found != names.end() ? found->second : QpName();
    estate.add(CmIdRow{.id = std::move(id), .device = device, .qp = qp});
  }
  for (auto& [channel, event] : all.events) estate.add(CmEventRow{.channel = channel, .event = std::move(event)});
  return {};
}

}  // namespace uroce::service
