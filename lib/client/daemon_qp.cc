#include "client/daemon_qp.h"

#include <utility>

#include "message/qp_messages.h"

namespace uroce::client {

using message::Kind;
using message::Op;

namespace {

class DaemonFlow final : public FlowImpl {
 public:
  DaemonFlow(const std::shared_ptr<DaemonLink>& link, uint32_t id, std::vector<Object> uses)
      : link_(link), object_(link, Kind::flow, id, std::move(uses)) {}
  Result<FlowCounters> counters() const override {
    return link_->call<FlowCounters>(Op::flow_counters, message::Handle{object_.id()});
  }

 private:
  std::shared_ptr<DaemonLink> link_;
  DaemonObject object_;
};

}  // namespace

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
  message::ModifyQp request{.qp = id_of(object_)};
  for (const auto& [attr, mask] : steps) request.steps.push_back({mask, attr});
  if (auto done = link_->call<message::Empty>(Op::modify_qp, request); !done) return std::unexpected(done.error());
  return {};
}

Result<uint64_t> DaemonQp::post(uint16_t operation, std::span<const QueuePair::Step> steps,
                                std::span<const std::byte> request) {
  std::vector<std::byte> bytes;
  message::encode(bytes, message::RequestHeader{static_cast<Op>(operation), message::kNoReply});
  // The members that CmQpTerms and CmQpEnd begin with; `request` is the rest.
  std::vector<message::ModifyStep> before;
  for (const auto& [attr, mask] : steps) before.push_back({mask, attr});
  message::encode(bytes, id_of(object_));
  message::encode(bytes, before);
  bytes.insert(bytes.end(), request.begin(), request.end());
  return link_->submit(bytes);
}

Result<void> DaemonQp::multicast(Op op, const Gid& group) {
  auto done = link_->call<message::Empty>(op, message::Multicast{id_of(object_), group.bytes});
  if (!done) return std::unexpected(done.error());
  return {};
}

}  // namespace uroce::client
