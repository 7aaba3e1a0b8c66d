#include "control/qp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "control/device_session.h"
#include "transport/core/setting_names.h"
#include "transport/qp/state.h"

namespace uroce::control {

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

void describe_transport(const transport::QpTransportStatus& status, Values& values) {
  const auto& again = status.retransmitted;
  values.emplace_back("recovery", transport::name(status.recovery));
  values.emplace_back("srtt_us", fmt::format("{:.1f}", static_cast<double>(status.srtt.count()) / 1e3));
  values.emplace_back("resent_fast", std::to_string(again.fast));
  values.emplace_back("resent_probe", std::to_string(again.probe));
  values.emplace_back("resent_timeout", std::to_string(again.timeout));
  values.emplace_back("resent_nak", std::to_string(again.nak));
  values.emplace_back("parked", std::to_string(status.parked));
  values.emplace_back("congestion", transport::name(status.congestion));
  values.emplace_back("rate_mbps", status.rate_bps == 0 ? "line" : std::to_string(status.rate_bps / 1'000'000));
  values.emplace_back("window", std::to_string(status.window));
  values.emplace_back("cnps_sent", std::to_string(status.cnps_sent));
  values.emplace_back("cnps_received", std::to_string(status.cnps_received));
}

}  // namespace

ControlQp::ControlQp(Refs refs, uint32_t engine, const transport::QpSpec& spec, std::unique_ptr<QueueMemory> memory,
                     Core core)
    : refs_(std::move(refs)), engine_(engine), spec_(spec), memory_(std::move(memory)), core_(std::move(core)) {}

Device& ControlQp::device() const { return *session()->device(); }

queues::DoorbellPoster ControlQp::doorbell() const { return session()->doorbell(engine_); }

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

Result<void> ControlQp::modify(const QpAttr& attr, QpAttrMask mask) {
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
    auto resolved = device().resolve(attr.av, kResolveTimeout);
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
  return {};
}

Result<QpAttr> ControlQp::query(transport::QpTransportStatus* status) const {
  const auto lock = device().runner().lock();
  if (auto alive = device().check_alive(); !alive) return std::unexpected(alive.error());
  QpAttr attr;
  auto ran = device().runner().run(engine_, [&](transport::Engine& engine) {
    attr = engine.query(*core_);
    if (status != nullptr) *status = engine.status(*core_);
  });
  if (!ran) return named(ran.error());
  attr.cap = cap();
  return attr;
}

std::vector<std::pair<std::string, std::string>> ControlQp::describe(bool psns) const {
  static constexpr std::pair<QpType, const char*> kTypes[] = {
      {QpType::rc, "RC"}, {QpType::uc, "UC"}, {QpType::ud, "UD"}};
  const auto* type_name = std::ranges::find(kTypes, type(), &std::pair<QpType, const char*>::first)->second;
  Values values = {{"qpn", fmt::format("{:#08x}", qpn())}, {"type", type_name}, {"engine", std::to_string(engine_)}};
  transport::QpTransportStatus status;
  const auto attr = query(&status);
  if (!attr) {
    values.emplace_back("state", attr.error().text);
    return values;
  }
  values.emplace_back("state", transport::name(attr->state));
  values.emplace_back("dest_qpn", fmt::format("{:#08x}", attr->dest_qpn));
  std::string gid;
  for (std::size_t i = 0; i < attr->av.dgid.bytes.size(); ++i) {
    gid += fmt::format("{}{:02x}", i != 0 && i % 2 == 0 ? ":" : "", attr->av.dgid.bytes[i]);
  }
  values.emplace_back("dgid", std::move(gid));
  if (psns) {
    values.emplace_back("sq_psn", std::to_string(attr->sq_psn));
    values.emplace_back("rq_psn", std::to_string(attr->rq_psn));
  }
  values.emplace_back("path_mtu", std::to_string(mtu_bytes(attr->path_mtu)));
  if (type() == QpType::rc) describe_transport(status, values);
  return values;
}

void ControlQp::release() {
  device().events().remove(EventObject::qp, qpn());
  device().objects().qp_numbers().give_back(engine_, qpn());
}

void ControlQp::destroy(ControlQp* qp) {
  {
    const std::shared_ptr<Device> device = qp->session()->device();
    const auto lock = device->runner().lock();
    qp->leave_groups();
    if (!device->runner().run(qp->engine_, [qp](transport::Engine& engine) { engine.detach(*qp->core_); })) {
      // The engine may be using the queues at this moment; they stay until the engine is known to be stopped.
      device->objects().defer([qp] { destroy(qp); });
      return;
    }
    qp->release();
  }
  delete qp;
}

}  // namespace uroce::control
