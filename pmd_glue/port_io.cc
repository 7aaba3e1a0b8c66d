// A port's bursts: DPDK's driver, or an interface of the kernel.
#include <rte_ethdev.h>

#include <algorithm>
#include <cstdint>

#include "pmd_glue/port.h"

namespace uroce::glue {

uint16_t Port::receive(uint16_t queue, std::span<rte_mbuf*> out) const {
  if (kif_) return kif_->receive(queue, out);
  return rte_eth_rx_burst(id_, queue, out.data(), static_cast<uint16_t>(out.size()));
}

uint16_t Port::send(uint16_t queue, std::span<rte_mbuf*> mbufs) const {
  if (kif_) return kif_->send(queue, mbufs);
  return rte_eth_tx_burst(id_, queue, mbufs.data(), static_cast<uint16_t>(mbufs.size()));
}

void Port::reclaim(uint16_t queue) const {
  if (!kif_) rte_eth_tx_done_cleanup(id_, queue, 0);
}

int Port::interrupt_descriptor(uint16_t queue) const {
  return kif_ ? kif_->descriptor(queue) : rte_eth_dev_rx_intr_ctl_q_get_fd(id_, queue);
}

void Port::arm_interrupt(uint16_t queue, bool armed) const {
  if (kif_) return;  // its descriptor always is
  if (armed) {
    rte_eth_dev_rx_intr_enable(id_, queue);
  } else {
    rte_eth_dev_rx_intr_disable(id_, queue);
  }
}

std::vector<std::pair<std::string, uint64_t>> Port::counters(uint16_t queue) const {
  if (kif_) return kif_->counters(queue);
  return {};
}

// A super-frame costs the socket little more than its bytes, but half of the buffer is left for the kernel's overhead
// and for what other queue pairs receive.
uint32_t Port::receive_window_packets() const {
  if (!kif_) return UINT32_MAX;
  return std::max(1u, kif::granted_receive_buffer() / 2 / max_frame());
}

}  // namespace uroce::glue
