#include "pmd_glue/steering.h"

#include <bit>
#include <cstddef>

namespace uroce::glue {

void Steering::give_others(rte_mbuf* mbuf) {
  for (uint32_t engine = 0; engine < handover_.engines(); ++engine) {
    if (engine == index_) continue;
    rte_mbuf_refcnt_update(mbuf, 1);
    give(mbuf, engine);
  }
}

bool Steering::offer_to_rules(rte_mbuf* mbuf, Nanos now) {
  const transport::RxFrame frame{{rte_pktmbuf_mtod(mbuf, const std::byte*), mbuf->data_len}};
  uint64_t engines = 0;
  const bool taken = engine_.flows().distribute(
      frame.bytes, transport::FrameTakers::all,
      [&](const transport::FlowEntry&, uint32_t qpn) { engines |= uint64_t{1} << handover_.engine_of(qpn); });
  for (uint64_t left = engines; left != 0; left &= left - 1) {
    const auto engine = static_cast<uint32_t>(std::countr_zero(left));
    if (engine == index_) {
      engine_.on_raw_frames({&frame, 1}, now);
    } else {
      rte_mbuf_refcnt_update(mbuf, 1);
      give(mbuf, engine, Handover::For::rule_and_sniffers);
    }
  }
  return taken;
}

}  // namespace uroce::glue
