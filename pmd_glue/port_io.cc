// A port's bursts. The kinds of port are known, so a branch chooses; a virtual call would cost every poll more.
#include <rte_ethdev.h>

#include <cstdint>

#include "pmd_glue/kernel_port.h"
#include "pmd_glue/port.h"
#include "pmd_glue/udp_port.h"

namespace uroce::glue {

uint16_t Port::receive(uint16_t queue, std::span<rte_mbuf*> out) const {
  if (kind_ == Kind::kernel) return static_cast<const KernelPort*>(this)->rx_burst(queue, out);
  if (kind_ == Kind::udp) return static_cast<const UdpPort*>(this)->rx_burst(out);
  return rte_eth_rx_burst(id_, queue, out.data(), static_cast<uint16_t>(out.size()));
}

uint16_t Port::send(uint16_t queue, std::span<rte_mbuf*> mbufs) const {
  if (kind_ == Kind::kernel) return static_cast<const KernelPort*>(this)->tx_burst(queue, mbufs);
  if (kind_ == Kind::udp) return static_cast<const UdpPort*>(this)->tx_burst(mbufs);
  return rte_eth_tx_burst(id_, queue, mbufs.data(), static_cast<uint16_t>(mbufs.size()));
}

void Port::reclaim(uint16_t queue) const {
  if (!is_kernel_interface()) rte_eth_tx_done_cleanup(id_, queue, 0);
}

// rte_eth_rx_burst() and rte_eth_tx_burst() look there for callbacks, as rte_pdump's.
bool Port::shows_received(uint16_t queue) const {
  return !is_kernel_interface() && __atomic_load_n(&rte_eth_fp_ops[id_].rxq.clbk[queue], __ATOMIC_RELAXED) != nullptr;
}

bool Port::shows_sent(uint16_t queue) const {
  return !is_kernel_interface() && __atomic_load_n(&rte_eth_fp_ops[id_].txq.clbk[queue], __ATOMIC_RELAXED) != nullptr;
}

}  // namespace uroce::glue
