#include "client/daemon_qp.h"

#include <utility>

namespace uroce::client {

using message::Kind;
using message::Op;

namespace {

class DaemonFlow final : public FlowImpl {
 public:
  DaemonFlow(const std::shared_ptr<DeviceLink>& link, uint32_t id, std::vector<Object> uses)
      : link_(link), object_(link, Kind::flow, id, std::move(uses)) {}
  Result<FlowCounters> counters() const override {
    return link_->call<FlowCounters>(Op::flow_counters, message::Handle{object_.id()});
  }

 private:
  std::shared_ptr<DeviceLink> link_;
  DaemonObject object_;
};

}  // namespace

std::vector<message::ModifyStep> to_messages(std::span<const QueuePair::Step> steps) {
  std::vector<message::ModifyStep> out;
  for (const auto& [attr, mask] : steps) out.push_back({mask, attr});
  return out;
}

Result<QpAttr> DaemonQp::query() const {
  auto attr = link_->call<QpAttr>(Op::query_qp, message::Handle{id_of(object_)});
  if (!attr) return std::unexpected(attr.error());
  QpAttr out = *attr;
  out.cap = cap();
  return out;
}

Result<std::shared_ptr<FlowImpl>> DaemonQp::create_flow(std::span<const QpImpl* const> table, const FlowRule& rule,
                                                        const RxHash& hash) {
  message::CreateFlow request{.rule = rule, .hash = hash};
  std::vector<Object> uses;
  for (const QpImpl* qp : table) {
    uses.push_back(static_cast<const DaemonQp*>(qp)->object_);
    request.qps.push_back(id_of(uses.back()));
  }
  auto reply = link_->call<message::Handle>(Op::create_flow, request);
  if (!reply) return std::unexpected(reply.error());
  return std::make_shared<DaemonFlow>(link_, reply->id, std::move(uses));
}

Result<void> DaemonQp::change(std::span<const QueuePair::Step> steps) {
  const message::ModifyQp request{.qp = id_of(object_), .steps = to_messages(steps)};
  if (auto done = link_->call<message::Empty>(Op::modify_qp, request); !done) return std::unexpected(done.error());
  return {};
}

Result<void> DaemonQp::multicast(Op op, const Gid& group) {
  auto done = link_->call<message::Empty>(op, message::Multicast{id_of(object_), group.bytes});
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace uroce::client
