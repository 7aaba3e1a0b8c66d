#include "transport/qp/local_operation.h"

#include "transport/qp/work_queue.h"

namespace uroce::transport {

WcStatus run_local(Context& ctx, const Qp& qp, const SendSlot& slot) {
  // A local operation uses up the room of one frame, so that a queue full of them does not starve other QPs.
  ctx.builder.forgo();
  if (slot.opcode == WrOpcode::local_invalidate) {
    const auto result = ctx.regions.invalidate(slot.imm_or_key, qp.pd, qp.qpn);
    return result == memory::AccessResult::ok ? WcStatus::success : WcStatus::local_qp_operation_error;
  }
  const auto [length, access, reserved] = slot.bind();
  const memory::BindSpec spec{.key = slot.imm_or_key,
                              .pd = qp.pd,
                              .qpn = qp.qpn,
                              .region = slot.rkey,
                              .address = slot.remote_addr,
                              .length = length,
                              .access = AccessFlags::from_bits(access)};
  return ctx.regions.bind(spec) ? WcStatus::success : WcStatus::mw_bind_error;
}

LocalCompletions complete_local(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  LocalCompletions done;
  while (tx.oldest != tx.sq.next()) {
    const SendSlot& slot = qp.slot(tx.oldest);
    // The requester fails the QP when a failed operation is the oldest.
    if (!slot.is_local() || !slot.started || slot.status != WcStatus::success) break;
    done.out |= complete_oldest(ctx, qp, WcStatus::success);
    done.any = true;
  }
  return done;
}

}  // namespace uroce::transport
