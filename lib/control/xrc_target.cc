// Target queue pairs of XRC domains: making one, opening one that another session has made.
#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/xrc_domain.h"

namespace uroce::control {
namespace {

/// One session's hold on a target queue pair. Its events come to the session meanwhile.
class OpenTarget {
 public:
  OpenTarget(std::shared_ptr<DeviceSession> session, std::shared_ptr<ControlQp> qp)
      : session_(std::move(session)), qp_(std::move(qp)) {
    const auto lock = session_->device()->runner().lock();
    session_->device()->events().add(EventObject::qp, qp_->qpn(), session_->events());
  }
  ~OpenTarget() {
    // The session's events end here. The target itself goes with its last holder.
    const auto lock = session_->device()->runner().lock();
    session_->device()->events().remove(EventObject::qp, qp_->qpn(), session_->events());
  }
  OpenTarget(const OpenTarget&) = delete;
  OpenTarget& operator=(const OpenTarget&) = delete;
  ControlQp* qp() const { return qp_.get(); }

 private:
  std::shared_ptr<DeviceSession> session_;
  std::shared_ptr<ControlQp> qp_;
};

std::shared_ptr<ControlQp> hold(std::shared_ptr<DeviceSession> session, std::shared_ptr<ControlQp> qp) {
  auto open = std::make_shared<OpenTarget>(std::move(session), std::move(qp));
  return {open, open->qp()};
}

}  // namespace

Result<std::shared_ptr<ControlQp>> DeviceSession::create_xrc_target(const std::shared_ptr<XrcDomain>& domain,
                                                                    const QpInit& init, const QpIdentity* as) {
  if (auto ok = check_domain(domain.get()); !ok) return std::unexpected(ok.error());
  auto session = device_->objects().xrc_sessions().of(owner_.user, [this] { return open(device_, nullptr, owner_); });
  if (!session) return std::unexpected(session.error());
  auto pd = (*session)->create_pd();
  if (!pd) return std::unexpected(pd.error());
  // It posts nothing; one slot is the least that a ring has.
  QpInit target{.type = QpType::xrc_target};
  target.cap = {.max_send_wr = 1, .max_recv_wr = 0, .max_send_sge = 0, .max_recv_sge = 0, .max_inline_data = 0};
  target.retransmission = init.retransmission;
  target.congestion_control = init.congestion_control;
  ControlQp::Refs refs;
  refs.pd = std::move(*pd);
  refs.xrc_domain = domain;
  auto qp = ControlQp::create(**session, std::move(refs), target, false, as);
  if (!qp) return std::unexpected(qp.error());
  domain->add((*qp)->qpn(), *qp);
  return hold(shared_from_this(), std::move(*qp));
}

Result<std::shared_ptr<ControlQp>> DeviceSession::open_xrc_target(const std::shared_ptr<XrcDomain>& domain,
                                                                  uint32_t qpn) {
  if (auto ok = check_domain(domain.get()); !ok) return std::unexpected(ok.error());
  auto qp = domain->target(qpn);
  if (!qp) return std::unexpected(qp.error());
  return hold(shared_from_this(), std::move(*qp));
}

Result<void> DeviceSession::check_domain(const XrcDomain* domain) const {
  if (domain == nullptr) return fail(EINVAL, "an XRC domain is missing");
  if (domain->device() == device_) return {};
  return fail(EINVAL, "the XRC domain belongs to another device; create all objects from one device");
}

}  // namespace uroce::control
