#include "control/qp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "control/session.h"
#include "transport/qp_state.h"

namespace uroce::control {

Qp::Qp(Refs refs, uint32_t engine, const transport::QpSpec& spec, std::unique_ptr<QueueMemory> memory, Core core)
    : refs_(std::move(refs)), engine_(engine), spec_(spec), memory_(std::move(memory)), core_(std::move(core)) {}

Device& Qp::device() const { return *session()->device(); }

queues::DoorbellPoster Qp::doorbell() const { return session()->doorbell(engine_); }

std::unexpected<Error> Qp::named(const Error& error) const {
  return fail(error.code, fmt::format("QP {:#x}: {}", qpn(), error.text));
}

// The check runs where the state changes: the engine may have moved the QP to error a moment ago.
Result<void> Qp::check(const QpAttr& attr, QpAttrMask mask) const {
  const QpState now = core_->state;
  if (mask.has(QpAttrBit::cur_state) && attr.cur_state != now) {
    return fail(EINVAL, fmt::format("attribute cur_state is {}, but the QP is in {}; query it",
                                    transport::name(attr.cur_state), transport::name(now)));
  }
  return transport::check_transition(type(), now, mask.has(QpAttrBit::state) ? attr.state : now, mask);
}

Result<void> Qp::modify(const QpAttr& attr, QpAttrMask mask) {
  const auto& config = device().config();
  if (auto ok = transport::check_values(type(), attr, mask, {config.max_path_mtu, config.gids}); !ok) {
    return named(ok.error());
  }
  Result<void> verdict;
  std::optional<PeerRoute> peer;
  if (mask.has(QpAttrBit::av) && type() != QpType::ud) {
    // Look before asking the network: a wrong mask must not take three seconds to be refused.
    {
      const auto lock = device().runner_.lock();
      if (auto alive = device().check_alive(); !alive) return alive;
      auto ran = device().runner_.run(engine_, [&](transport::Engine&) { verdict = check(attr, mask); });
      if (!ran) return named(ran.error());
      if (!verdict) return named(verdict.error());
    }
    auto resolved = device().resolve(attr.av);
    if (!resolved) return named(resolved.error());
    peer = *resolved;
  }
  const auto lock = device().runner_.lock();
  if (auto alive = device().check_alive(); !alive) return alive;
  const auto work = [&](transport::Engine& engine) {
    verdict = check(attr, mask);
    if (verdict) engine.modify(*core_, attr, mask, peer ? &peer->route : nullptr, peer && peer->loopback);
  };
  if (auto ran = device().runner_.run(engine_, work); !ran) return named(ran.error());
  if (!verdict) return named(verdict.error());
  return {};
}

Result<QpAttr> Qp::query() const {
  const auto lock = device().runner_.lock();
  if (auto alive = device().check_alive(); !alive) return std::unexpected(alive.error());
  QpAttr attr;
  auto ran = device().runner_.run(engine_, [&](transport::Engine& engine) { attr = engine.query(*core_); });
  if (!ran) return named(ran.error());
  attr.cap = cap();
  return attr;
}

void Qp::release() {
  device().events_.remove(EventObject::qp, qpn());
  device().qpns_[engine_].give_back(qpn());
  --device().qps_;
}

void Qp::destroy(Qp* qp) {
  {
    const std::shared_ptr<Device> device = qp->session()->device();
    const auto lock = device->runner_.lock();
    if (!device->runner_.run(qp->engine_, [qp](transport::Engine& engine) { engine.detach(*qp->core_); })) {
      // The engine may be using its queues at this moment; they stay until it is known to be stopped.
      device->stuck_qps_.emplace_back(qp);
      return;
    }
    qp->release();
  }
  delete qp;
}

}  // namespace uroce::control
