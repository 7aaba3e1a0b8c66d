#include "control/flow.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"
#include "control/qp.h"
#include "transport/datagram/flow_table.h"
#include "wire/flow_key.h"

namespace uroce::control {

Result<std::shared_ptr<Flow>> Flow::create(std::shared_ptr<ControlQp> qp, const FlowRule& rule) {
  if (qp->type() != QpType::raw_packet) {
    return fail(EINVAL, fmt::format("cannot create receive rule: QP {:#x} is not a raw packet queue pair, and only "
                                    "these receive whole frames",
                                    qp->qpn()));
  }
  auto pattern = wire::make_pattern(rule);
  if (!pattern) return std::unexpected(pattern.error());
  Device& device = *qp->session()->device();
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return std::unexpected(alive.error());
  const transport::FlowEntry entry{.id = device.objects().next_flow(),
                                   .qpn = qp->qpn(),
                                   .type = rule.type,
                                   .priority = rule.priority,
                                   .pattern = *pattern};
  bool room = true;
  const auto added = qp->on_every_engine([&](transport::Engine& engine) { room = engine.add_flow(entry) && room; });
  if (added && room) return std::shared_ptr<Flow>(new Flow(std::move(qp), rule, entry.id), &Flow::destroy);
  const auto removed = qp->on_every_engine([&](transport::Engine& engine) { engine.remove_flow(entry.id); });
  if (!added) return std::unexpected(added.error());
  if (!removed) return std::unexpected(removed.error());
  return fail(ENOMEM, fmt::format("cannot create receive rule: {} has {} of them, which is the limit; destroy some",
                                  device.config().name, transport::FlowTable::kMaxRules));
}

void Flow::destroy(Flow* flow) {
  {
    const std::shared_ptr<Device> device = flow->qp_->session()->device();
    const auto lock = device->runner().lock();
    if (!flow->qp_->on_every_engine([flow](transport::Engine& engine) { engine.remove_flow(flow->id_); })) {
      // An engine that still has the rule may deliver to the queue pair. Both stay until the engines have stopped.
      device->objects().defer([flow] { destroy(flow); });
      return;
    }
  }
  delete flow;
}

}  // namespace uroce::control
