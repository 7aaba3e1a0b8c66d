#include "pmd_glue/port_faults.h"

#include <algorithm>
#include <cstring>

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
                       faults::FaultCounters& counters)
    : port_(port),
      path_(path),
      faults_(rules, device, rte_pktmbuf_data_room_size(port.pool()) - RTE_PKTMBUF_HEADROOM, counters),
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

void PortFaults::send_due() {
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
    if (faults_.take(Way::tx, bytes_in(*mbuf), now_)) {
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
  if (faults_.take(Way::rx, bytes_in(*mbuf), now_)) {
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

bool PortFaults::take_loopback(rte_mbuf& mbuf) { return faults_.take(Way::loopback, bytes_in(mbuf), now_); }

}  // namespace uroce::glue
