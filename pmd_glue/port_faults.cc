#include "pmd_glue/port_faults.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace uroce::glue {

namespace {

using faults::Way;

std::span<std::byte> bytes_in(rte_mbuf& mbuf) { return {rte_pktmbuf_mtod(&mbuf, std::byte*), mbuf.data_len}; }

/// Takes the first of an array.
void remove_first(std::span<rte_mbuf*> all, std::size_t& count, std::size_t taken) {
  count -= taken;
  std::memmove(all.data(), all.data() + taken, count * sizeof(rte_mbuf*));
}

}  // namespace

PortFaults::PortFaults(const faults::Rules& rules, std::string_view device, const Port& port, TxPath& path,
                       faults::FaultCounters& counters, EndingQps& qps)
    : port_(port),
      path_(path),
      qps_(qps),
      faults_(rules, device, rte_pktmbuf_data_room_size(port.pool()) - RTE_PKTMBUF_HEADROOM, counters, &qps),
      has_rules_(!rules.empty()) {}

PortFaults::~PortFaults() {
  rte_pktmbuf_free_bulk(waiting_.data(), static_cast<unsigned>(waiting_count_));
  rte_pktmbuf_free_bulk(received_.data(), static_cast<unsigned>(received_count_));
}

void PortFaults::succeed(PortFaults& before) {
  faults_.succeed(before.faults_);
  std::swap(waiting_count_, before.waiting_count_);
  std::swap(received_count_, before.received_count_);
  waiting_ = before.waiting_;
  received_ = before.received_;
  idle_.store(false, std::memory_order_release);
  if (!has_rules_) faults_.end();
}

rte_mbuf* PortFaults::copy(std::span<const std::byte> frame) const {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(port_.pool());
  if (mbuf != nullptr) {
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
  }
  return mbuf;
}

bool PortFaults::take(Way way, rte_mbuf& mbuf) {
  const bool goes_on = faults_.take(way, bytes_in(mbuf), now_);
  if (tap_ != nullptr && faults_.acted() != 0) tap_->add(mbuf, way == Way::tx, faults_.acted());
  if (const Nanos stall = faults_.take_stall(); stall.count() != 0) std::this_thread::sleep_for(stall);
  return goes_on;
}

void PortFaults::send_due() {
  // Frames that came before belong to the life of the queue pair.
  if (received_count_ == 0) {
    for (const uint32_t qpn : faults_.take_ended()) qps_.end(qpn, now_);
  }
  release_sent();
  send_waiting();
  idle_.store(due() == kNever, std::memory_order_release);
}

Nanos PortFaults::due() const { return waiting_count_ + received_count_ != 0 ? now_ : faults_.due(); }

uint16_t PortFaults::push(std::span<rte_mbuf*> mbufs) {
  std::size_t taken = 0;
  while (taken < mbufs.size()) {
    if (waiting_count_ == waiting_.size()) send_waiting();
    if (waiting_count_ == waiting_.size()) break;
    rte_mbuf* const mbuf = mbufs[taken++];
    if (take(Way::tx, *mbuf)) {
      waiting_[waiting_count_++] = mbuf;
    } else {
      rte_pktmbuf_free(mbuf);
    }
    release_sent();
  }
  send_waiting();
  return static_cast<uint16_t>(taken);
}

void PortFaults::release_sent() {
  release(Way::tx, [this](rte_mbuf* mbuf) {
    if (waiting_count_ == waiting_.size()) return false;
    waiting_[waiting_count_++] = mbuf;
    return true;
  });
}

void PortFaults::send_waiting() {
  if (waiting_count_ == 0 || port_.holds_frames()) return;
  const std::size_t sent = path_.push({waiting_.data(), waiting_count_});
  faulted_ = path_.take_fault() || faulted_;
  remove_first(waiting_, waiting_count_, sent);
}

void PortFaults::put_received(rte_mbuf* mbuf) {
  if (take(Way::rx, *mbuf)) {
    received_[received_count_++] = mbuf;
  } else {
    rte_pktmbuf_free(mbuf);
  }
  release(Way::rx, [this](rte_mbuf* other) {
    // The rest of the burst needs room, too.
    if (received_count_ + kBurst > received_.size()) return false;
    received_[received_count_++] = other;
    return true;
  });
}

uint16_t PortFaults::take_received(std::span<rte_mbuf*> out) {
  release(Way::rx, [this](rte_mbuf* mbuf) {
    if (received_count_ >= 2 * kBurst) return false;
    received_[received_count_++] = mbuf;
    return true;
  });
  const std::size_t count = std::min({received_count_, out.size(), kBurst});
  std::copy_n(received_.begin(), count, out.begin());
  remove_first(received_, received_count_, count);
  return static_cast<uint16_t>(count);
}

bool PortFaults::take_loopback(rte_mbuf& mbuf) { return take(Way::loopback, mbuf); }

}  // namespace uroce::glue
