#include "pmd_glue/local_link.h"

#include <rte_ring.h>

#include "wire/packet.h"

namespace uroce::glue {

uint32_t dest_qpn_of(const transport::TxFrame& frame) {
  return wire::peek({frame.header.data(), frame.header_length}).dest_qpn;
}

bool LocalLink::open(bool sender_is_watched, std::size_t waiting) {
  if (receiver_ == nullptr) return false;
  if (sender_is_watched || is_watched()) {
    detour_ = true;
    return false;
  }
  if (detour_) [[unlikely]]
    detour_ = waiting != 0 || rte_ring_empty(buffers_) == 0;
  return !detour_;
}

std::size_t LocalLink::hand_over(std::span<const transport::TxFrame> frames, Nanos now) {
  std::size_t count = 0;
  while (count < frames.size() && frames[count].loopback == frames[0].loopback && !frames[count].raw &&
         receiver_->serves(dest_qpn_of(frames[count]))) {
    ++count;
  }
  if (count != 0) receiver_->take(frames.first(count), now);
  return count;
}

}  // namespace uroce::glue
