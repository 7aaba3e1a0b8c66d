// A queue pair of the daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "client/daemon_object.h"
#include "client/flush.h"
#include "client/queue_pair.h"
#include "message/connection.h"
#include "message/qp_messages.h"

namespace uroce::client {

std::vector<message::ModifyStep> to_messages(std::span<const QueuePair::Step> steps);

class DaemonQp final : public QpImpl {
 public:
  DaemonQp(const ContextImpl& context, const QpParts& parts, std::shared_ptr<DeviceLink> link, Object object, int wake)
      : QpImpl(context, parts), link_(std::move(link)), object_(std::move(object)), wake_(wake) {}
  ~DaemonQp() override {
    for (const auto& list : completes_on_) list->remove(qpn());
  }

  /// `ring`, and `held` with a shared one, complete on the completion queue of `list`, also when the daemon is lost.
  void complete_on(const std::shared_ptr<FlushList>& list, std::shared_ptr<AbandonedRing> ring,
                   queues::HeldRecv* held = nullptr) {
    list->add(qpn(), state_for_posts(), std::move(ring), held);
    completes_on_.push_back(list);
  }

  Result<QpAttr> query() const override;
  Result<void> attach_multicast(const Gid& group) override { return multicast(message::Op::attach_multicast, group); }
  Result<void> detach_multicast(const Gid& group) override { return multicast(message::Op::detach_multicast, group); }
  Result<std::shared_ptr<FlowImpl>> create_flow(std::span<const QpImpl* const> table, const FlowRule& rule,
                                                const RxHash& hash) override;
  const DaemonQp* in_daemon() const override { return this; }
  const std::shared_ptr<DeviceLink>& link() const { return link_; }
  /// Its number in messages for its device.
  uint32_t id() const { return id_of(object_); }

 private:
  Result<void> change(std::span<const QueuePair::Step> steps) override;
  Result<void> multicast(message::Op op, const Gid& group);
  void wake() override {
    if (!message::write_token(wake_)) link_->mark_lost();
  }
  bool lost() const override { return link_->lost(); }

  std::shared_ptr<DeviceLink> link_;
  Object object_;
  int wake_;
  std::vector<std::shared_ptr<FlushList>> completes_on_;
};

}  // namespace uroce::client
