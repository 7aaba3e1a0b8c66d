#include "ping/end.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace uroce::ping {

End::End(Context context, ProtectionDomain pd, CompletionChannel channel, CompletionQueue cq, QueuePair qp)
    : context_(std::move(context)),
      pd_(std::move(pd)),
      channel_(std::move(channel)),
      cq_(std::move(cq)),
      memory_(std::size_t{kBuffers} * kBufferBytes),
      mr_(pd_.register_memory(memory_.data(), memory_.size(), Access::local_write)),
      qp_(std::move(qp)) {}

Result<std::unique_ptr<End>> End::open(Context context) {
  auto pd = context.create_pd();
  if (!pd) return std::unexpected(pd.error());
  auto channel = context.create_channel();
  if (!channel) return std::unexpected(channel.error());
  auto cq = context.create_cq(4 * kBuffers, &*channel);
  if (!cq) return std::unexpected(cq.error());
  auto qp = context.create_qp(*pd, *cq, *cq, {.cap = {.max_send_wr = kBuffers, .max_recv_wr = kBuffers}});
  if (!qp) return std::unexpected(qp.error());
  std::unique_ptr<End> end(
      new End(std::move(context), std::move(*pd), std::move(*channel), std::move(*cq), std::move(*qp)));
  if (!end->mr_) return std::unexpected(end->mr_.error());
  return end;
}

Result<void> End::connect_by(const CmId& id) {
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    auto attr = id.qp_attr(state);
    if (!attr) return std::unexpected(attr.error());
    // A WRITE without data needs no key, only this right. It would be a message that no receive has.
    if (state == QpState::init) attr->first.access = Access::local_write;
    if (auto changed = qp_.modify(attr->first, attr->second); !changed) return changed;
    if (state != QpState::init) continue;
    for (uint32_t i = 0; i < kBuffers; ++i) {
      if (!receive(i)) return fail(EINVAL, "the queue pair takes no receive");
    }
  }
  return {};
}

void End::arm() {
  while (channel_.wait(std::chrono::nanoseconds(0))) {
  }
  static_cast<void>(cq_.arm());
}

bool End::send(uint32_t buffer, uint32_t bytes) {
  const Sge sge = mr_->sge(std::size_t{buffer} * kBufferBytes, bytes);
  return qp_.post_send({.wr_id = buffer, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&sge, 1}}) ==
         0;
}

bool End::receive(uint32_t buffer) {
  const Sge sge = mr_->sge(std::size_t{buffer} * kBufferBytes, kBufferBytes);
  return qp_.post_recv({.wr_id = buffer, .sges = {&sge, 1}}) == 0;
}

}  // namespace uroce::ping
