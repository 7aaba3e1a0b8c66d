#include "pmd_glue/sink.h"

#include <rte_memory.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "base/bytes.h"
#include "pmd_glue/missing_icrc.h"
#include "pmd_glue/port_faults.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::glue {

EtherSink::EtherSink(const Port& port, TxPath& path, Handover& handover, rte_mempool* external_pool)
    : port_(port),
      port_path_(path),
      path_(&path),
      handover_(handover),
      pool_(port.pool()),
      external_pool_(external_pool),
      port_external_(external_pool != nullptr ? port.external() : ExternalMemory::never),
      external_(port_external_),
      most_(port.joins_frames() ? kJoined : kPending),
      fills_ip_checksum_(port.fills_ip_checksum()),
      missing_icrc_(missing_icrc_flag()),
      loopback_(handover),
      references_(path) {}

EtherSink::~EtherSink() {
  rte_pktmbuf_free_bulk(stash_.data(), static_cast<unsigned>(stash_count_));
  rte_pktmbuf_free_bulk(tx_.data(), static_cast<unsigned>(tx_count_));
}

std::size_t EtherSink::room() {
  if (port_.holds_frames()) return 0;
  if (pending() && !may_wait()) flush();
  std::size_t room = std::min({most_ - tx_count_, LoopbackQueue::kRoom - loopback_.size(), stash_.size()});
  if (room > stash_count_ && !refill(room)) room = stash_count_;
  return room;
}

bool EtherSink::refill(std::size_t wanted) {
  const auto missing = static_cast<unsigned>(wanted - stash_count_);
  if (rte_pktmbuf_alloc_bulk(pool_, &stash_[stash_count_], missing) != 0) {
    counters_.buffers_missing.add();
    return false;
  }
  stash_count_ += missing;
  return true;
}

void EtherSink::set_local(const LocalLink& own, const std::optional<LocalLink>& peer) {
  own_ = own;
  peer_ = peer.value_or(LocalLink());
  loopback_needs_icrc_ = missing_icrc_ == 0;
  port_needs_icrc_ = loopback_needs_icrc_ || !peer.has_value();
}

void EtherSink::set_watch(const Watch* watch) {
  watch_ = watch;
  path_ = has_faults() ? static_cast<TxPath*>(watch->faults) : &port_path_;
  external_ = has_faults() ? ExternalMemory::never : port_external_;
  fills_ip_checksum_ = port_.fills_ip_checksum() && !has_faults();
}

void EtherSink::send(std::span<const transport::TxFrame> frames) {
  assert(frames.size() <= stash_count_);
  const bool is_watched = watched();
  const bool own_open = own_.open(is_watched, loopback_.size());
  const bool peer_open = peer_.open(is_watched, tx_count_);
  counters_.frames.add(frames.size());
  while (!frames.empty()) {
    const bool loopback = frames.front().loopback;
    std::size_t taken = 0;
    if (loopback ? own_open : peer_open) taken = (loopback ? own_ : peer_).hand_over(frames, now_);
    if (taken != 0) {
      count_local(frames.first(taken));
    } else {
      send_buffer(frames.front(), is_watched);
      taken = 1;
    }
    frames = frames.subspan(taken);
  }
  if (!may_wait()) flush();
}

void EtherSink::count_local(std::span<const transport::TxFrame> frames) {
  counters_.local_frames.add(frames.size());
  if (frames.front().loopback) counters_.loopback_frames.add(frames.size());
  for (const transport::TxFrame& frame : frames) {
    counters_.bytes.add(frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes);
  }
}

void EtherSink::send_buffer(const transport::TxFrame& frame, bool is_watched) {
  rte_mbuf* mbuf = build(frame, is_watched);
  counters_.bytes.add(mbuf->pkt_len);
  // Copy here and not around the driver's burst, which may free the frames, or take them only at a second try.
  if (is_watched) [[unlikely]] {
    show(*mbuf, frame.loopback);
    if (frame.loopback && !frame.raw && has_faults()) return loop_back_through_faults(mbuf);
  }
  if (frame.loopback) [[unlikely]]
    return loop_back(frame, mbuf);
  tx_[tx_count_++] = mbuf;
}

void EtherSink::show(const rte_mbuf& mbuf, bool loopback) {
  if (watch_ != nullptr && watch_->tap != nullptr) watch_->tap->add(mbuf, true);
  if (rules_ == nullptr || !rules_->has_sniffers()) return;
  // A frame that stays here besides leaving to a group is copied once.
  const bool to_group = (*rte_pktmbuf_mtod(&mbuf, const uint8_t*) & 1) != 0;
  if (!loopback || !to_group) show_to_sniffers(mbuf);
}

// A copy of its own: the driver may change the frame, and the program its payload.
void EtherSink::show_to_sniffers(const rte_mbuf& mbuf) {
  rte_mbuf* copy = rte_pktmbuf_copy(&mbuf, pool_, 0, UINT32_MAX);
  if (copy == nullptr) return counters_.sniffer_lost.add();
  complete_ip_checksum(mbuf, rte_pktmbuf_mtod(copy, std::byte*));
  const std::span<const std::byte> bytes(rte_pktmbuf_mtod(copy, const std::byte*), copy->data_len);
  uint64_t engines = 0;
  rules_->distribute(bytes, transport::FrameTakers::sniffers, [&](const transport::FlowEntry&, uint32_t qpn) {
    engines |= uint64_t{1} << handover_.engine_of(qpn);
  });
  rte_mbuf_refcnt_set(copy, static_cast<uint16_t>(std::popcount(engines)));
  for (; engines != 0; engines &= engines - 1) {
    if (handover_.put(static_cast<uint32_t>(std::countr_zero(engines)), copy, Handover::For::sniffers)) continue;
    counters_.sniffer_lost.add();
    rte_pktmbuf_free(copy);
  }
}

void EtherSink::loop_back(const transport::TxFrame& frame, rte_mbuf* mbuf) {
  counters_.loopback_frames.add();
  if (frame.raw && frame.raw_receiver == 0) return rte_pktmbuf_free(mbuf);
  const std::byte* bytes = rte_pktmbuf_mtod(mbuf, std::byte*);
  const uint64_t targets = frame.raw ? uint64_t{1} << handover_.engine_of(frame.raw_receiver)
                                     : handover_.targets_of(wire::peek({bytes, mbuf->data_len}).dest_qpn);
  loopback_.add(mbuf, targets, frame.raw ? Handover::For::rule : Handover::For::queue_pair);
}

void EtherSink::loop_back_roce(rte_mbuf* mbuf) {
  const auto peek = wire::peek({rte_pktmbuf_mtod(mbuf, const std::byte*), mbuf->data_len});
  loopback_.add(mbuf, handover_.targets_of(peek.dest_qpn), Handover::For::queue_pair);
}

void EtherSink::loop_back_through_faults(rte_mbuf* mbuf) {
  counters_.loopback_frames.add();
  if (watch_->faults->take_loopback(*mbuf)) {
    loop_back_roce(mbuf);
  } else {
    rte_pktmbuf_free(mbuf);
  }
  release_loopback();
}

// An empty queue has room for one more besides the rest of a burst.
void EtherSink::release_loopback() {
  if (!has_faults()) return;
  watch_->faults->release_loopback([this](rte_mbuf* mbuf) {
    if (loopback_.size() != 0) loopback_.flush();
    if (loopback_.size() != 0) return false;
    loop_back_roce(mbuf);
    return true;
  });
}

bool EtherSink::send_raw(std::span<const std::byte> frame) {
  if (frame.size() > port_.max_frame() || room() == 0) return false;
  rte_mbuf* mbuf = stash_[--stash_count_];
  std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
  if (watched()) show(*mbuf, false);
  tx_[tx_count_++] = mbuf;
  flush();
  return true;
}

// A frame for a group may have several receivers at once, and none of them could fill in the ICRC for a watcher.
bool EtherSink::needs_icrc(const transport::TxFrame& frame, bool is_watched) const {
  if (frame.loopback ? loopback_needs_icrc_ : port_needs_icrc_) return true;
  return is_watched || (frame.loopback ? own_ : peer_).is_watched() || dest_qpn_of(frame) == kMulticastQpn;
}

rte_mbuf* EtherSink::build(const transport::TxFrame& frame, bool is_watched) {
  if (frame.raw) [[unlikely]]
    return build_raw(frame);
  if (!needs_icrc(frame, is_watched)) return build_without_icrc(frame);
  rte_mbuf* mbuf = may_reference(frame) ? build_external(frame) : nullptr;
  if (mbuf == nullptr) mbuf = build_copy(frame);
  if (fills_ip_checksum_ && frame.ip_version == 4 && !frame.loopback) {
    constexpr std::size_t kChecksumOffset = 10;
    store_be16(rte_pktmbuf_mtod_offset(mbuf, std::byte*, frame.l3_offset + kChecksumOffset), 0);
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    mbuf->l2_len = frame.l3_offset;
    mbuf->l3_len = 20;
  }
  return mbuf;
}

rte_mbuf* EtherSink::build_without_icrc(const transport::TxFrame& frame) {
  rte_mbuf* mbuf = build_raw(frame);
  mbuf->ol_flags |= missing_icrc_;
  std::memset(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.pad + wire::kIcrcBytes)), 0,
              frame.pad + wire::kIcrcBytes);
  return mbuf;
}

rte_mbuf* EtherSink::build_raw(const transport::TxFrame& frame) {
  rte_mbuf* mbuf = stash_[--stash_count_];
  std::byte* const start = rte_pktmbuf_mtod(mbuf, std::byte*);
  std::memcpy(start, frame.header.data(), frame.header_length);
  std::byte* at = start + frame.header_length;
  for (const transport::PayloadSpan& span : std::span(frame.payload, frame.payload_spans)) {
    std::memcpy(at, span.data, span.length);
    at += span.length;
  }
  mbuf->data_len = static_cast<uint16_t>(at - start);
  mbuf->pkt_len = mbuf->data_len;
  return mbuf;
}

rte_mbuf* EtherSink::build_copy(const transport::TxFrame& frame) {
  rte_mbuf* mbuf = stash_[--stash_count_];
  std::byte* const start = rte_pktmbuf_mtod(mbuf, std::byte*);
  // Copy the whole array: a copy of fixed size is a handful of stores, and the payload overwrites the rest.
  std::memcpy(start, frame.header.data(), frame.header.size());
  std::byte* at = start + frame.header_length;
  auto crc = frame.begin_icrc();
  for (const transport::PayloadSpan& span : std::span(frame.payload, frame.payload_spans)) {
    crc.copy(at, {span.data, span.length});
    at += span.length;
  }
  mbuf->data_len = static_cast<uint16_t>(crc.finish(at, frame.pad) - start);
  mbuf->pkt_len = mbuf->data_len;
  return mbuf;
}

bool EtherSink::may_reference(const transport::TxFrame& frame) const {
  if (external_ == ExternalMemory::never || frame.loopback || frame.copy_payload) return false;
  if (frame.payload_length < kExternalMinBytes || frame.payload_spans > kExternalMaxSpans) return false;
  if (external_ == ExternalMemory::any) return true;
  return std::ranges::all_of(std::span(frame.payload, frame.payload_spans), [](const transport::PayloadSpan& span) {
    const rte_memseg_list* list = rte_mem_virt2memseg_list(span.data);
    const auto base = list == nullptr ? 0 : reinterpret_cast<uintptr_t>(list->base_va);
    return list != nullptr && reinterpret_cast<uintptr_t>(span.data) + span.length <= base + list->len;
  });
}

// Headers, one segment per span, and a trailer of pad and ICRC. Null when the small pool is exhausted; the caller
// copies then.
rte_mbuf* EtherSink::build_external(const transport::TxFrame& frame) {
  std::array<rte_mbuf*, kExternalMaxSpans + 1> segments{};
  const unsigned count = frame.payload_spans + 1u;
  if (rte_pktmbuf_alloc_bulk(external_pool_, segments.data(), count) != 0) return nullptr;
  rte_mbuf* head = stash_[--stash_count_];
  std::byte* const start = rte_pktmbuf_mtod(head, std::byte*);
  std::memcpy(start, frame.header.data(), frame.header.size());
  head->data_len = frame.header_length;
  auto crc = frame.begin_icrc();
  rte_mbuf* last = head;
  rte_mbuf_ext_shared_info& shared = references_.add(frame.payload_spans);
  for (uint8_t i = 0; i < frame.payload_spans; ++i) {
    const transport::PayloadSpan& span = frame.payload[i];
    void* data = const_cast<std::byte*>(span.data);  // mbufs have no const; drivers only read on TX
    crc.update({span.data, span.length});
    const rte_iova_t iova =
        external_ == ExternalMemory::any ? reinterpret_cast<uintptr_t>(data) : rte_mem_virt2iova(data);
    rte_pktmbuf_attach_extbuf(segments[i], data, iova, static_cast<uint16_t>(span.length), &shared);
    segments[i]->data_len = static_cast<uint16_t>(span.length);
    last = last->next = segments[i];
  }
  rte_mbuf* trailer = segments[frame.payload_spans];
  std::byte* const end = rte_pktmbuf_mtod(trailer, std::byte*);
  trailer->data_len = static_cast<uint16_t>(crc.finish(end, frame.pad) - end);
  last->next = trailer;
  head->nb_segs = static_cast<uint16_t>(count + 1);
  head->pkt_len = frame.header_length + frame.payload_length + trailer->data_len;
  counters_.external_frames.add();
  return head;
}

bool EtherSink::flush() {
  bool moved = false;
  if (tx_count_ != 0) moved = flush_port();
  if (loopback_.size() != 0) moved = loopback_.flush() || moved;
  return moved;
}

bool EtherSink::flush_port() {
  const std::size_t sent = path_->push({tx_.data(), tx_count_});
  counters_.bursts.add();
  if (path_->take_fault()) [[unlikely]] {
    counters_.faults.add();
    references_.forget();  // a guarded driver keeps no buffer after its burst
  }
  tx_count_ -= sent;
  if (tx_count_ != 0) {
    counters_.short_bursts.add();
    std::memmove(tx_.data(), tx_.data() + sent, tx_count_ * sizeof(rte_mbuf*));
  }
  return sent != 0;
}

}  // namespace uroce::glue
