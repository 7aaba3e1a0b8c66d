#include "pmd_glue/port_queue.h"

#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <iterator>

#include "base/engine_round.h"
#include "pmd_glue/fault_guard.h"
#include "pmd_glue/missing_icrc.h"
#include "pmd_glue/port_faults.h"

namespace uroce::glue {

namespace {

constexpr uint32_t kRxBursts = 8;  // of a round
/// After as many a round takes no other message of the kernel. It ends behind a whole super-frame, so the ACK lets the
/// peer send whole ones: two at MTU 1500, half of a window.
constexpr uint32_t kRoundFrames = 96;
/// As many a message and the ACK of the one before may be, and a little more. ACKs of bulk do not wait.
constexpr uint64_t kFewFrames = 4;
/// Rounds that follow each other so soon are those of an engine that waits for a message, not of one with bulk to move.
constexpr Nanos kSteady = std::chrono::microseconds(5);

transport::FrameTakers takers_of(Handover::For why) {
  switch (why) {
    case Handover::For::rule: return transport::FrameTakers::rule;
    case Handover::For::sniffers: return transport::FrameTakers::sniffers;
    default: return transport::FrameTakers::all;
  }
}

std::span<const std::byte> bytes_of(const rte_mbuf* mbuf) {
  return {rte_pktmbuf_mtod(mbuf, const std::byte*), mbuf->data_len};
}

/// `missing_icrc`: the flag of frames of this process; 0 if the frame comes from outside.
transport::RxFrame frame_of(const rte_mbuf* mbuf, uint64_t missing_icrc) {
  return {bytes_of(mbuf), (mbuf->ol_flags & missing_icrc) != 0};
}

}  // namespace

PortQueue::PortQueue(const PortQueueParts& parts)
    : parts_(parts),
      index_(parts.engine.config().index),
      max_frame_(rte_pktmbuf_data_room_size(parts.port.pool())),
      random_(parts.engine.config().seed.plain_seed("loss")),
      missing_icrc_(missing_icrc_flag()),
      takes_messages_(parts.port.is_kernel_interface()),
      needs_guard_(parts.port.needs_guard()),
      plain_rx_(!needs_guard_),
      queue_(index_ < parts.port.queues() ? std::optional(static_cast<uint16_t>(index_)) : std::nullopt),
      slow_(index_ == 0 ? parts.neighbourhood.outgoing() : nullptr),
      local_(parts.engine, parts.handover, parts.port, queue_),
      steering_(parts.handover, parts.engine) {
  if (queue_) {
    path_ = std::make_unique<QueuePath>(parts_.port, *queue_);
  } else {
    path_ = std::make_unique<SharedPath>(*parts_.shared, parts_.handover.waker(0));
  }
  sink_ = std::make_unique<EtherSink>(parts_.port, *path_, parts_.handover, parts_.external_pool);
  sink_->set_rules(parts_.engine.flows());
  if (!parts_.whole_frames) sink_->set_local(own_link(), std::nullopt);
}

LocalLink PortQueue::own_link() { return {local_, parts_.handover.ring(index_)}; }

void PortQueue::join(PortQueue& peer, const rte_ring& sent) {
  if (parts_.whole_frames) return;
  joined_ = true;
  sink_->set_local(own_link(), LocalLink(peer.local_, sent));
}

bool PortQueue::round(const TscClock& clock) {
  const Nanos now = clock.now();
  begin_engine_round(now);
  if (watchers_.is_out_of_date()) [[unlikely]]
    change_watch();
  if (watchers_.watch() != nullptr) [[unlikely]]
    tell_time(now);
  sink_->set_time(now);
  if (parts_.port.paused(pause_seen_)) [[unlikely]]
    return round_in_pause(now);
  if (parts_.engine.is_paused()) [[unlikely]]
    return parts_.engine.poll(*sink_, now);  // frames wait in the port, for this engine or its successor
  // After a pause, ACKs may wait in the port that timers would take for lost: receive before the timers run.
  const bool answer_first = parts_.answers_first && now - last_round_ < kSteady;
  last_round_ = now;
  bool worked = false;
  if (answer_first) {
    worked = parts_.engine.poll(*sink_, now);
    if (parts_.engine.is_paused()) [[unlikely]]
      return worked;  // just now
  }
  const uint64_t received = counters_.received.get();
  worked = (queue_ && receive_bursts(now)) || worked;
  worked = receive_handed_over(now) || worked;
  if (!answer_first || counters_.received.get() - received > kFewFrames)
    worked = parts_.engine.poll(*sink_, now) || worked;
  if (sink_->pending()) worked = sink_->flush() || worked;
  if (index_ == 0) {
    if (parts_.shared != nullptr) worked = parts_.shared->drain(*path_) || worked;
    worked = (slow_ != nullptr && send_slow()) || worked;
  }
  return worked;
}

// poll() sends nothing: while the link is down the sink has no room.
bool PortQueue::round_in_pause(Nanos now) {
  const bool handed_over = receive_handed_over(now);
  return parts_.engine.poll(*sink_, now) || handed_over;
}

void PortQueue::finish(Nanos now) {
  if (parts_.port.paused(pause_seen_)) return;
  sink_->set_time(now);
  parts_.engine.poll(*sink_, now);
  if (sink_->pending()) sink_->flush();
}

bool PortQueue::receive_rest(Nanos now) {
  sink_->set_time(now);
  if (sink_->pending()) sink_->flush();  // frames to engines of this process
  parts_.engine.resume();
  bool any = false;
  if (queue_) {
    while (const uint16_t count = parts_.port.receive_rest(*queue_, burst_)) {
      handle_burst(std::span(burst_).first(count), now);
      any = true;
    }
  }
  while (take_handed_over(now) != 0) any = true;
  parts_.engine.pause();
  return any;
}

void PortQueue::change_watch() {
  const Watch before = watchers_.take();
  const Watch* const watch = watchers_.watch();
  PortFaults* const faults = watch != nullptr ? watch->faults : nullptr;
  if (before.faults != nullptr && faults != nullptr && faults != before.faults) faults->succeed(*before.faults);
  plain_rx_ = !needs_guard_ && faults == nullptr;
  sink_->set_watch(watch);
  local_.set_watched(watch != nullptr);
  watchers_.release();
}

void PortQueue::tell_time(Nanos now) {
  const Watch& watch = *watchers_.watch();
  if (watch.tap != nullptr) watch.tap->set_time(now);
  if (watch.faults == nullptr) return;
  watch.faults->set_time(now, watch.tap);
  if (parts_.port.paused(pause_seen_)) return;
  watch.faults->send_due();
  sink_->release_loopback();
}

std::unique_ptr<PortFaults> PortQueue::make_faults(const faults::Rules& rules, std::string_view device,
                                                   EndingQps& qps) {
  return std::make_unique<PortFaults>(rules, device, parts_.port, *path_, counters_.injected, qps);
}

Nanos PortQueue::next_deadline() const {
  const Nanos engine = parts_.engine.next_deadline();
  const Watch* const watch = watchers_.watch();
  return watch == nullptr || watch->faults == nullptr ? engine : std::min(engine, watch->faults->due());
}

uint16_t PortQueue::rx_burst() {
  if (plain_rx_) return parts_.port.receive(*queue_, burst_);
  const Watch* const watch = watchers_.watch();
  return watch != nullptr && watch->faults != nullptr ? rx_burst_through_faults() : guarded_rx_burst();
}

uint16_t PortQueue::guarded_rx_burst() {
  volatile uint16_t received = 0;
  if (guarded([&] { received = parts_.port.receive(*queue_, burst_); })) return received;
  // The array holds the frames that the driver had finished before the fault.
  counters_.faults.add();
  uint16_t whole = 0;
  while (whole < kBurst && burst_[whole] != nullptr) ++whole;
  return whole;
}

uint16_t PortQueue::rx_burst_through_faults() {
  PortFaults& faults = *watchers_.watch()->faults;
  if (!faults.has_received()) {
    const uint16_t count = needs_guard_ ? guarded_rx_burst() : parts_.port.receive(*queue_, burst_);
    for (rte_mbuf* mbuf : std::span(burst_).first(count)) {
      if (mbuf->nb_segs != 1 || rte_mbuf_refcnt_read(mbuf) != 1) mbuf = in_one_buffer(mbuf);
      if (mbuf == nullptr) continue;
      if (joined_ && (mbuf->ol_flags & missing_icrc_) != 0) fill_in_icrc(*mbuf);
      faults.put_received(mbuf);
    }
    std::fill_n(burst_.begin(), count, nullptr);
  }
  return faults.take_received(burst_);
}

// More at once than an engine sends: frames that wait here would delay the messages of all clients.
bool PortQueue::receive_bursts(Nanos now) {
  if (takes_messages_) return receive_messages(now);
  uint32_t bursts = 0;
  for (; bursts < kRxBursts; ++bursts) {
    const uint16_t count = receive(now);
    if (count < kBurst) return bursts != 0 || count != 0;
  }
  return true;
}

// A peer that gets one ACK for all that it has in flight waits while this engine works, and the other way round.
bool PortQueue::receive_messages(Nanos now) {
  uint32_t frames = 0;
  kif::Behind behind = kif::Behind::more;
  while (behind == kif::Behind::rest || (behind == kif::Behind::more && frames < kRoundFrames)) {
    frames += receive(now);
    behind = parts_.port.behind_burst(*queue_);
  }
  return frames != 0;
}

uint16_t PortQueue::receive(Nanos now) {
  const uint16_t count = rx_burst();
  if (count == 0) return 0;
  handle_burst(std::span(burst_).first(count), now);
  if (needs_guard_) std::fill_n(burst_.begin(), count, nullptr);
  return count;
}

void PortQueue::handle_burst(std::span<rte_mbuf*> burst, Nanos now) {
  const std::size_t count = burst.size();
  counters_.received.add(count);
  for (std::size_t i = 0; i < count; ++i) rte_prefetch0(rte_pktmbuf_mtod(burst[i], void*));

  std::size_t ours = 0;
  std::size_t done = 0;  // burst[0..done) is freed here
  const uint64_t missing_icrc = joined_ ? missing_icrc_ : 0;
  const bool alone = parts_.handover.engines() == 1;
  const bool has_rules = !parts_.engine.flows().empty();
  for (std::size_t i = 0; i < count; ++i) {
    rte_mbuf* const mbuf = burst[i]->nb_segs == 1 ? burst[i] : in_one_buffer(burst[i]);
    if (mbuf == nullptr) continue;
    const wire::Peek peek = wire::peek(bytes_of(mbuf));
    show_to_watchers(*mbuf, peek.kind, missing_icrc);
    const bool taken = has_rules && steering_.offer_to_rules(mbuf, now);
    if (peek.kind == wire::Peek::Kind::roce) [[likely]] {
      const Fate fate = place_roce(mbuf, peek.dest_qpn, alone);
      if (fate == Fate::given_away) continue;
      if (fate == Fate::ours) frames_[ours++] = frame_of(mbuf, missing_icrc);
    } else if (peek.kind != wire::Peek::Kind::other) {
      pass_to_neighbourhood(*mbuf);
    } else if (!taken) {
      counters_.foreign.add();
    }
    burst[done++] = mbuf;
  }
  if (ours != 0) parts_.engine.on_frames({frames_.data(), ours}, now);
  rte_pktmbuf_free_bulk(burst.data(), static_cast<unsigned>(done));
}

[[gnu::always_inline]] inline void PortQueue::show_to_watchers(rte_mbuf& mbuf, wire::Peek::Kind kind,
                                                               uint64_t missing_icrc) {
  if ((mbuf.ol_flags & missing_icrc) != 0 && local_.is_watched()) [[unlikely]]
    fill_in_icrc(mbuf);
  if (watchers_.watch() == nullptr) [[likely]]
    return;
  FrameTap* const tap = watchers_.watch()->tap;
  if (tap != nullptr && kind != wire::Peek::Kind::other) tap->add(mbuf, false);
}

[[gnu::always_inline]] inline PortQueue::Fate PortQueue::place_roce(rte_mbuf* mbuf, uint32_t dest_qpn, bool alone) {
  if ((mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD) {
    counters_.bad_ip_checksum.add();
    return Fate::done;
  }
  if (parts_.receive_loss != 0 && random_.chance(parts_.receive_loss)) [[unlikely]] {
    counters_.lost_on_purpose.add();
    return Fate::done;
  }
  if (alone) return Fate::ours;
  const bool multicast = dest_qpn == kMulticastQpn;
  const uint32_t engine = multicast ? index_ : parts_.handover.engine_of(dest_qpn);
  if (engine == index_ && !multicast) return Fate::ours;
  if (!joined_) mbuf->ol_flags &= ~missing_icrc_;
  if (multicast) {
    steering_.give_others(mbuf);
    return Fate::ours;
  }
  steering_.give(mbuf, engine);
  return Fate::given_away;
}

void PortQueue::pass_to_neighbourhood(const rte_mbuf& mbuf) {
  counters_.slow.add();
  if (!parts_.neighbourhood.deliver(index_, bytes_of(&mbuf))) counters_.slow_lost.add();
}

// Copies for sniffers come besides, as many as frames are sent.
bool PortQueue::receive_handed_over(Nanos now) {
  if (parts_.handover.empty(index_)) return false;
  const uint32_t most = parts_.engine.flows().has_sniffers() ? kRxBursts : 1;
  for (uint32_t bursts = 0; bursts < most; ++bursts) {
    const uint32_t count = take_handed_over(now);
    if (count < kBurst) return bursts != 0 || count != 0;
  }
  return true;
}

uint32_t PortQueue::take_handed_over(Nanos now) {
  std::array<rte_mbuf*, kBurst> burst;
  std::array<Handover::For, kBurst> why;
  const uint32_t count = parts_.handover.take(index_, burst, why);
  if (count == 0) return 0;
  std::size_t ours = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (why[i] == Handover::For::queue_pair) [[likely]] {
      frames_[ours++] = frame_of(burst[i], missing_icrc_);
    } else {
      const transport::RxFrame frame{bytes_of(burst[i])};
      parts_.engine.on_raw_frames({&frame, 1}, now, takers_of(why[i]));
    }
  }
  if (ours != 0) parts_.engine.on_frames({frames_.data(), ours}, now);
  rte_pktmbuf_free_bulk(burst.data(), count);
  return count;
}

bool PortQueue::send_slow() {
  bool moved = false;
  for (auto frame = slow_->front(); !frame.empty() && sink_->send_raw(frame); frame = slow_->front()) {
    slow_->pop();
    moved = true;
  }
  return moved;
}

rte_mbuf* PortQueue::in_one_buffer(rte_mbuf* mbuf) {
  rte_mbuf* whole =
      mbuf->pkt_len + RTE_PKTMBUF_HEADROOM <= max_frame_ ? rte_pktmbuf_alloc(parts_.port.pool()) : nullptr;
  if (whole != nullptr) {
    std::byte* at = rte_pktmbuf_mtod(whole, std::byte*);
    for (const rte_mbuf* segment = mbuf; segment != nullptr; segment = segment->next) {
      std::memcpy(at, rte_pktmbuf_mtod(segment, const std::byte*), segment->data_len);
      at += segment->data_len;
    }
    whole->data_len = static_cast<uint16_t>(mbuf->pkt_len);
    whole->pkt_len = mbuf->pkt_len;
    whole->ol_flags = mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
  } else {
    counters_.oversize.add();
  }
  rte_pktmbuf_free(mbuf);
  return whole;
}

std::vector<std::pair<std::string, uint64_t>> PortQueue::counter_list() const {
  const SinkCounters& sink = sink_->counters();
  std::vector<std::pair<std::string, uint64_t>> out{{"port_received", counters_.received.get()},
                                                    {"port_steered", steering_.counters().steered.get()},
                                                    {"port_steer_lost", steering_.counters().lost.get()},
                                                    {"port_slow", counters_.slow.get()},
                                                    {"port_slow_lost", counters_.slow_lost.get()},
                                                    {"port_foreign", counters_.foreign.get()},
                                                    {"port_bad_ip_checksum", counters_.bad_ip_checksum.get()},
                                                    {"port_lost_on_purpose", counters_.lost_on_purpose.get()},
                                                    {"port_oversize", counters_.oversize.get()},
                                                    {"port_rx_faults", counters_.faults.get()},
                                                    {"port_faults_injected", counters_.injected.injected.get()},
                                                    {"port_faults_overflow", counters_.injected.overflow.get()},
                                                    {"port_sent", sink.frames.get()},
                                                    {"port_sent_bytes", sink.bytes.get()},
                                                    {"port_sent_external", sink.external_frames.get()},
                                                    {"port_loopback", sink.loopback_frames.get()},
                                                    {"port_local", sink.local_frames.get()},
                                                    {"port_sniffer_lost", sink.sniffer_lost.get()},
                                                    {"port_tx_bursts", sink.bursts.get()},
                                                    {"port_tx_short_bursts", sink.short_bursts.get()},
                                                    {"port_buffers_missing", sink.buffers_missing.get()},
                                                    {"port_tx_faults", sink.faults.get()}};
  if (queue_) std::ranges::move(parts_.port.counters(*queue_), std::back_inserter(out));
  return out;
}

}  // namespace uroce::glue
