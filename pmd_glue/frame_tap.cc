#include "pmd_glue/frame_tap.h"

#include <rte_ip.h>
#include <rte_mbuf.h>

#include <cstring>

namespace uroce::glue {

using message::CaptureRecord;

void complete_ip_checksum(const rte_mbuf& sent, std::byte* bytes) {
  if ((sent.ol_flags & RTE_MBUF_F_TX_IP_CKSUM) == 0) return;
  auto* ip = reinterpret_cast<rte_ipv4_hdr*>(bytes + sent.l2_len);
  ip->hdr_checksum = 0;
  ip->hdr_checksum = rte_ipv4_cksum(ip);
}

void FrameTap::add(const rte_mbuf& frame, bool outbound, uint32_t fault_rule) {
  const uint64_t needed = message::capture_record_bytes(frame.pkt_len);
  const uint64_t to_end = message::kCaptureBytes - (written_ & (message::kCaptureBytes - 1));
  const uint64_t skipped = to_end < needed ? to_end : 0;
  // The reader's index is not trusted. Records stay inside the ring for every value of it; a wrong one harms only the
  // reader's own copy.
  const uint64_t waiting = written_ - head_.read.load(std::memory_order_acquire);
  if (frame.pkt_len > message::kCaptureLongest || waiting > message::kCaptureBytes ||
      waiting + skipped + needed > message::kCaptureBytes) {
    head_.dropped.store(++dropped_, std::memory_order_relaxed);
    return;
  }
  if (skipped != 0) {
    // Records begin at multiples of 8, so the length always fits, if not the whole record.
    const uint32_t skip = message::kCaptureSkip;
    if (skipped >= sizeof(CaptureRecord)) {
      std::memcpy(at(written_) + offsetof(CaptureRecord, length), &skip, sizeof skip);
    }
    written_ += skipped;
  }
  std::byte* to = at(written_);
  const CaptureRecord record{.time_ns = static_cast<uint64_t>(now_.count()),
                             .length = frame.pkt_len,
                             .outbound = outbound ? 1u : 0u,
                             .fault_rule = fault_rule & 0x7fffffff};
  std::memcpy(to, &record, sizeof record);
  std::byte* const bytes = to + sizeof record;
  to = bytes;
  for (const rte_mbuf* segment = &frame; segment != nullptr; segment = segment->next) {
    std::memcpy(to, rte_pktmbuf_mtod(segment, const std::byte*), segment->data_len);
    to += segment->data_len;
  }
  if (outbound) complete_ip_checksum(frame, bytes);
  written_ += needed;
  head_.written.store(written_, std::memory_order_release);
}

}  // namespace uroce::glue
