#include "uroce/ping_end.h"

#include <cerrno>
#include <utility>

namespace uroce::cli {

PingEnd::PingEnd(Context context, ProtectionDomain pd, CompletionQueue cq, QueuePair qp)
    : context_(std::move(context)),
      pd_(std::move(pd)),
      cq_(std::move(cq)),
      memory_(std::size_t{kBuffers} * kBufferBytes),
      mr_(pd_.register_memory(memory_.data(), memory_.size(), Access::local_write)),
      qp_(std::move(qp)) {}

Result<std::unique_ptr<PingEnd>> PingEnd::open(const std::string& device, const DaemonOptions& daemon) {
  auto context = open_daemon_device(device, daemon);
  if (!context) return std::unexpected(context.error());
  auto pd = context->create_pd();
  if (!pd) return std::unexpected(pd.error());
  auto cq = context->create_cq(4 * kBuffers);
  if (!cq) return std::unexpected(cq.error());
  auto qp = context->create_qp(*pd, *cq, *cq, {.cap = {.max_send_wr = kBuffers, .max_recv_wr = kBuffers}});
  if (!qp) return std::unexpected(qp.error());
  std::unique_ptr<PingEnd> end(new PingEnd(std::move(*context), std::move(*pd), std::move(*cq), std::move(*qp)));
  if (!end->mr_) return std::unexpected(end->mr_.error());
  return end;
}

Result<void> PingEnd::connect_by(const CmId& id) {
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    const auto attr = id.qp_attr(state);
    if (!attr) return std::unexpected(attr.error());
    if (auto changed = qp_.modify(attr->first, attr->second); !changed) return changed;
    if (state != QpState::init) continue;
    for (uint32_t i = 0; i < kBuffers; ++i) {
      if (!receive(i)) return fail(EINVAL, "the queue pair takes no receive");
    }
  }
  return {};
}

bool PingEnd::send(uint32_t buffer, uint32_t bytes) {
  const Sge sge = mr_->sge(std::size_t{buffer} * kBufferBytes, bytes);
  return qp_.post_send({.wr_id = buffer, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&sge, 1}}) ==
         0;
}

bool PingEnd::receive(uint32_t buffer) {
  const Sge sge = mr_->sge(std::size_t{buffer} * kBufferBytes, kBufferBytes);
  return qp_.post_recv({.wr_id = buffer, .sges = {&sge, 1}}) == 0;
}

}  // namespace uroce::cli
