#include "control/qp.h"

#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "control/cq.h"
#include "control/device_session.h"
#include "control/xrc_domain.h"
#include "transport/qp/state.h"

namespace uroce::control {

ControlQp::ControlQp(Refs refs, uint32_t engine, const SessionDoorbells::Ring& doorbells, const transport::QpSpec& spec,
                     std::unique_ptr<QueueMemory> memory, Core core)
    : refs_(std::move(refs)),
      engine_(engine),
      doorbells_(doorbells),
      spec_(spec),
      memory_(std::move(memory)),
      core_(std::move(core)) {}

Device& ControlQp::device() const { return *session()->device(); }

std::unexpected<Error> ControlQp::named(const Error& error) const {
  return fail(error.code, fmt::format("QP {:#x}: {}", qpn(), error.text));
}

Result<void> ControlQp::check(QpState now, const QpAttr& attr, QpAttrMask mask) const {
  if (mask.has(QpAttrBit::cur_state) && attr.cur_state != now) {
    return fail(EINVAL, fmt::format("attribute cur_state is {}, but the QP is in {}; query it",
                                    transport::name(attr.cur_state), transport::name(now)));
  }
  return transport::check_transition(type(), now, mask.has(QpAttrBit::state) ? attr.state : now, mask);
}

Result<void> ControlQp::check_now(const QpAttr& attr, QpAttrMask mask) const {
  const auto lock = device().runner().lock();
  Result<void> verdict;
  const auto work = [&](transport::Engine&) { verdict = check(core_->state, attr, mask); };
  if (auto ran = device().runner().run(engine_, work); !ran) return named(ran.error());
  if (!verdict) return named(verdict.error());
  return {};
}

Result<void> ControlQp::modify(const QpAttr& attr, QpAttrMask mask, std::chrono::nanoseconds patience) {
  const auto& config = device().config();
  const std::vector<Gid> gids = device().gids();
  if (auto alive = device().check_alive(); !alive) return alive;
  if (auto ok = transport::check_values(type(), attr, mask, {config.max_path_mtu, gids}); !ok) {
    return named(ok.error());
  }
  std::optional<PeerRoute> peer;
  if (mask.has(QpAttrBit::av) && type() != QpType::ud) {
    // Check before querying the network: a wrong mask must not take three seconds to be refused.
    if (auto ok = check_now(attr, mask); !ok) return ok;
    auto resolved = device().resolve(attr.av, session()->user(), patience);
    if (!resolved) return named(resolved.error());
    peer = *resolved;
  }
  const auto lock = device().runner().lock();
  if (auto alive = device().check_alive(); !alive) return alive;
  if (peer) device().refresh(*peer);
  Result<void> verdict;
  const auto work = [&](transport::Engine& engine) {
    // On the engine's thread, where the state changes: the engine may just have moved the QP to error.
    verdict = check(core_->state, attr, mask);
    if (verdict) engine.modify(*core_, attr, mask, peer ? &peer->route : nullptr, peer && peer->loopback);
  };
  if (auto ran = device().runner().run(engine_, work); !ran) return named(ran.error());
  if (!verdict) return named(verdict.error());
  if (mask.has(QpAttrBit::state) && attr.state == QpState::reset) release_completions();
  return {};
}

QpIdentity ControlQp::identity() const {
  const auto lock = device().runner().lock();
  return {.qpn = qpn(), .on_large_doorbells = doorbells_.large != nullptr, .groups = groups_};
}

std::vector<std::byte> ControlQp::snapshot(uint32_t version) const {
  const auto lock = device().runner().lock();
  return device().engine(engine_).snapshot(*core_, device().runner().host().clock(), version);
}

Result<void> ControlQp::adopt(std::span<const std::byte> snapshot) {
  const std::vector<Gid> former = device().former_gids();
  const auto lock = device().runner().lock();
  if (snapshot.empty()) {
    device().engine(engine_).adopt_unknown(*core_, device().runner().host().clock());
    return {};
  }
  return device().engine(engine_).adopt(*core_, snapshot, device().runner().host().clock(), former);
}

QpInit ControlQp::init() const {
  return {.type = type(),
          .cap = cap(),
          .signal_all = spec_.signal_all,
          .retransmission = spec_.retransmission,
          .congestion_control = spec_.congestion};
}

void ControlQp::look(transport::Engine& engine, QpAttr& attr, transport::QpTransportStatus& status) const {
  attr = engine.query(*core_);
  attr.cap = cap();
  status = engine.status(*core_);
}

Result<QpAttr> ControlQp::query() const {
  const auto lock = device().runner().lock();
  if (auto alive = device().check_alive(); !alive) return std::unexpected(alive.error());
  QpAttr attr;
  if (auto ran = device().runner().run(engine_, [&](transport::Engine& engine) { attr = engine.query(*core_); });
      !ran) {
    return named(ran.error());
  }
  attr.cap = cap();
  return attr;
}

void ControlQp::release_completions() {
  CompletionRules* const rules = device().completion_rules();
  if (rules == nullptr) return;
  for (Cq* const cq : {refs_.send_cq.get(), refs_.recv_cq.get()}) {
    if (cq != nullptr) cq->release(*rules, device().runner().host().clock(), true);
  }
}

void ControlQp::release() {
  device().events().remove(EventObject::qp, qpn());
  if (refs_.xrc_domain != nullptr) refs_.xrc_domain->remove(qpn());
  device().objects().qp_numbers().give_back(engine_, qpn());
  session()->doorbells().give_back(engine_, doorbells_);
}

void ControlQp::destroy(ControlQp* qp) {
  {
    const std::shared_ptr<Device> device = qp->session()->device();
    const auto lock = device->runner().lock();
    qp->leave_groups();
    if (!device->runner().run(qp->engine_, [qp](transport::Engine& engine) { engine.detach(*qp->core_); })) {
      // The engine may be using the queues at this moment; they stay until it answers or is known to be stopped.
      device->objects().defer([qp] { destroy(qp); });
      return;
    }
    qp->release_completions();
    qp->release();
  }
  delete qp;
}

}  // namespace uroce::control
