// Work requests that send nothing: binding memory windows and invalidating keys (IBTA vol. 1, 10.6.7, 11.4.1.1).
#include "transport/engine_core.h"

namespace uroce::transport {

WcStatus run_local(EngineCore& core, const Qp& qp, const SendSlot& slot) {
  // Charged as a frame is: a queue full of these leaves the others their turn.
  core.builder.forgo();
  if (slot.opcode == WrOpcode::local_invalidate) {
    const auto result = core.regions.invalidate(slot.imm_or_key, qp.pd, qp.qpn);
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
  return core.regions.bind(spec) ? WcStatus::success : WcStatus::mw_bind_error;
}

bool complete_local(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  const uint32_t before = tx.oldest;
  while (tx.oldest != tx.sq.next()) {
    const SendSlot& slot = qp.slot(tx.oldest);
    // A failed one ends the queue pair when the cursor comes to it.
    if (!slot.is_local() || !slot.started || slot.status != WcStatus::success) break;
    complete_oldest(core, qp, WcStatus::success);
  }
  return tx.oldest != before;
}

}  // namespace uroce::transport
