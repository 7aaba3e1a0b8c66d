#include <cerrno>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "control/qp.h"
#include "service/bequeath_cm.h"
#include "service/cm_operations.h"
#include "service/cm_rows.h"

namespace uroce::service {
namespace {

/// Takes rows of the one kind as long as there are some.
template <class T, class Each>
Result<void> take_all(EstateReader& estate, Each each) {
  while (!estate.at_end()) {
    const auto kind = estate.next();
    if (!kind) return std::unexpected(kind.error());
    if (*kind != T::kRow) break;
    auto row = estate.take<T>();
    if (!row) return std::unexpected(row.error());
    if (Result<void> done = each(std::move(*row)); !done) return done;
  }
  return {};
}

Result<void> take_agent(EstateReader& estate, CmAgentRow&& row, cm::AgentSnapshot& agent) {
  agent.device = std::move(row.device);
  agent.ids = {.key = row.key, .given = row.ids_given};
  agent.last_slowed = row.last_slowed;
  agent.counters = std::move(row.counters);
  agent.guesses = std::move(row.guesses);
  const auto keep = [](auto& list) {
    return [&list](auto&& value) -> Result<void> {
      list.push_back(std::forward<decltype(value)>(value));
      return {};
    };
  };
  auto done = take_all<CmConnectionRow>(estate, [&](auto&& one) { return keep(agent.connections)(one.connection); });
  if (done) done = take_all<CmOutgoingRow>(estate, [&](auto&& one) { return keep(agent.gsi.outgoing)(one.mad); });
  if (done) done = take_all<CmIncomingRow>(estate, [&](auto&& one) { return keep(agent.gsi.incoming)(one.mad); });
  return done;
}

/// Collects the rows of one program.
class CmHeir {
 public:
  CmHeir(Program& program, std::span<ClientState* const> devices, EstateReader& in)
      : program_(program), devices_(devices), in_(in) {}

  Result<void> read(uint32_t last_channel) {
    all_.last_channel = last_channel;
    auto done = take_all<CmChannelRow>(in_, [this](CmChannelRow&& row) { return channel(row); });
    if (done) done = take_all<CmIdRow>(in_, [this](CmIdRow&& row) { return id(std::move(row)); });
    if (done) done = take_all<CmEventRow>(in_, [this](CmEventRow&& row) { return event(std::move(row)); });
    if (!done) return done;
    return program_.connections->adopt(std::move(all_), std::move(pipes_));
  }

 private:
  Result<void> channel(const CmChannelRow& row) {
    auto charge = program_.charge(Resource::descriptor, kDescriptorsOfChannel);
    if (!charge) return std::unexpected(charge.error());
    auto read_end = in_.take_fd(row.read_end);
    if (!read_end) return std::unexpected(read_end.error());
    auto write_end = in_.take_fd(row.write_end);
    if (!write_end) return std::unexpected(write_end.error());
    program_.cm_channels[row.number] = std::move(*charge);
    pipes_.push_back(control::EventPipe::of(read_end->release(), write_end->release()));
    all_.channels.push_back({.number = row.number, .owed = row.owed});
    return {};
  }

  Result<void> id(CmIdRow&& row) {
    if (row.qp != 0) {
      if (row.device >= devices_.size()) return fail(EPROTO, fmt::format("there is no device {}", row.device));
      auto found = devices_[row.device]->qps.find(row.qp);
      if (!found) return std::unexpected(found.error());
      row.id.qp = std::move(*found);
    }
    all_.ids.push_back(std::move(row.id));
    return {};
  }

  Result<void> event(CmEventRow&& row) {
    all_.events.emplace_back(row.channel, std::move(row.event));
    return {};
  }

  Program& program_;
  std::span<ClientState* const> devices_;
  EstateReader& in_;
  cm::ProgramSnapshot all_;
  std::vector<control::EventPipe> pipes_;
};

}  // namespace

Result<void> inherit(cm::Manager& manager, EstateReader& estate, Result<void>& refused) {
  cm::ManagerSnapshot all;
  auto done = take_all<CmManagerRow>(estate, [&](CmManagerRow&& row) -> Result<void> {
    all.next_number = row.next_number;
    all.slowed = std::move(row.slowed);
    return {};
  });
  if (done) {
    done = take_all<CmAgentRow>(
        estate, [&](CmAgentRow&& row) { return take_agent(estate, std::move(row), all.agents.emplace_back()); });
  }
  if (!done) return done;
  refused = manager.adopt(std::move(all));
  return {};
}

Result<void> inherit_connections(Program& program, std::span<ClientState* const> devices, EstateReader& estate) {
  return take_all<CmProgramRow>(estate, [&](const CmProgramRow& row) -> Result<void> {
    if (program.connections != nullptr) return fail(EPROTO, "the estate has connections of a program twice");
    if (auto opened = open_connection_manager(program); !opened) return opened;
    return CmHeir(program, devices, estate).read(row.last_channel);
  });
}

}  // namespace uroce::service
