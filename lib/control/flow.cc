#include "control/flow.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"
#include "control/qp.h"
#include "transport/datagram/flow_table.h"
#include "wire/flow_key.h"
#include "wire/rx_hash.h"

namespace uroce::control {
namespace {

Result<void> check_table(const Flow::Table& table) {
  if (!std::has_single_bit(table.size()) || table.size() > kMaxIndirection) {
    return fail(EINVAL, fmt::format("cannot create receive rule: its table has {} queue pairs; it must be a power of "
                                    "two, at most {}",
                                    table.size(), kMaxIndirection));
  }
  for (const auto& qp : table) {
    if (qp->type() != QpType::raw_packet) {
      return fail(EINVAL, fmt::format("cannot create receive rule: QP {:#x} is not a raw packet queue pair, and only "
                                      "these receive whole frames",
                                      qp->qpn()));
    }
    if (qp->session() != table[0]->session()) {
      return fail(EINVAL, fmt::format("cannot create receive rule: QPs {:#x} and {:#x} belong to different openers of "
                                      "their devices; create all from one",
                                      table[0]->qpn(), qp->qpn()));
    }
  }
  return {};
}

/// For the engines; null where there is nothing to pick from.
std::shared_ptr<const transport::IndirectionTable> indirection(const Flow::Table& table, const RxHash& hash) {
  if (table.size() == 1) return nullptr;
  auto made = std::make_shared<transport::IndirectionTable>(hash);
  for (const auto& qp : table) made->qpns.push_back(qp->qpn());
  return made;
}

}  // namespace

Result<std::shared_ptr<Flow>> Flow::create(Table table, const FlowRule& rule, const RxHash& hash, const FlowState* as) {
  if (auto ok = check_table(table); !ok) return std::unexpected(ok.error());
  if (auto ok = wire::check_rx_hash(hash); !ok) return std::unexpected(ok.error());
  auto pattern = wire::make_pattern(rule);
  if (!pattern) return std::unexpected(pattern.error());
  ControlQp& qp = *table[0];
  Device& device = *qp.session()->device();
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return std::unexpected(alive.error());
  if (as != nullptr && !device.objects().has_given_flow(as->id)) {
    return fail(EINVAL, fmt::format("{} cannot have receive rule {}", device.config().name, as->id));
  }
  transport::FlowEntry entry{.id = as != nullptr ? as->id : device.objects().next_flow(),
                             .qpn = qp.qpn(),
                             .table = indirection(table, hash),
                             .type = rule.type,
                             .priority = rule.priority,
                             .tag = rule.tag,
                             .pattern = *pattern};
  const Counts counts(new transport::FlowCounts[device.engines()]);
  for (std::size_t i = 0; as != nullptr && i < std::min<std::size_t>(as->counts.size(), device.engines()); ++i) {
    counts[i].packets.add(as->counts[i].packets);
    counts[i].bytes.add(as->counts[i].bytes);
  }
  bool room = true;
  const auto added = qp.on_every_engine([&](transport::Engine& engine) {
    entry.counts = {counts, &counts[engine.config().index]};
    room = engine.flows().add(entry) && room;
  });
  if (added && room)
    return std::shared_ptr<Flow>(new Flow(std::move(table), rule, hash, entry.id, counts), &Flow::destroy);
  const auto removed = qp.on_every_engine([&](transport::Engine& engine) { engine.flows().remove(entry.id); });
  if (!added) return std::unexpected(added.error());
  if (!removed) return std::unexpected(removed.error());
  return fail(ENOMEM, fmt::format("cannot create receive rule: {} has {} of them, which is the limit; destroy some",
                                  device.config().name, transport::FlowTable::kMaxRules));
}

FlowState Flow::state() const {
  FlowState state{.id = id_, .counts = {}};
  for (uint32_t engine = 0; engine < table_[0]->session()->device()->engines(); ++engine) {
    state.counts.push_back({.packets = counts_[engine].packets.get(), .bytes = counts_[engine].bytes.get()});
  }
  return state;
}

FlowCounters Flow::counters() const {
  FlowCounters sum;
  for (const FlowCounters& one : state().counts) {
    sum.packets += one.packets;
    sum.bytes += one.bytes;
  }
  return sum;
}

void Flow::destroy(Flow* flow) {
  {
    const std::shared_ptr<Device> device = flow->table_[0]->session()->device();
    const auto lock = device->runner().lock();
    if (!flow->table_[0]->on_every_engine([flow](transport::Engine& engine) { engine.flows().remove(flow->id_); })) {
      // An engine that still has the rule may deliver to the queue pair. Both stay until it answers, or the engines
      // have stopped.
      device->objects().defer([flow] { destroy(flow); });
      return;
    }
  }
  delete flow;
}

}  // namespace uroce::control
