// Finds an engine's queue pairs by their numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transport/core/engine_config.h"
#include "transport/engine/prefetch.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

class QpTable {
 public:
  /// `config` must outlive the table.
  explicit QpTable(const EngineConfig& config)
      : shift_(config.index_bits), mask_(config.max_qps - 1), slots_(config.max_qps + 1), config_(config) {}

  /// Nullptr: there is no such QP.
  Qp* find(uint32_t qpn) {
    Qp* qp = slot_of(qpn);
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// Fetches what find() and the handlers of a packet read first. `qpn` may be anything.
  void prefetch(uint32_t qpn) {
    if (const Qp* qp = slot_of(qpn); qp != nullptr) prefetch_state(*qp);
  }
  /// The same for a doorbell.
  void prefetch_to_send(uint32_t qpn) {
    if (const Qp* qp = slot_of(qpn); qp != nullptr) prefetch_requester(*qp);
  }
  /// The index of the engine that a QPN's low bits name.
  uint32_t engine_of(uint32_t qpn) const { return qpn & ((1u << config_.index_bits) - 1); }
  /// False: the number is another engine's, or its slot is taken.
  bool add(Qp& qp) {
    if (engine_of(qp.qpn) != config_.index || qp.qpn > Psn::kMask) return false;
    Qp*& slot = slot_of(qp.qpn);
    if (slot != nullptr) return false;
    slot = &qp;
    return true;
  }
  /// False: the QP is not in the table.
  bool remove(Qp& qp) {
    if (find(qp.qpn) != &qp) return false;
    slot_of(qp.qpn) = nullptr;
    return true;
  }
  template <class Is>
  bool any_of(const Is& is) const {
    return std::ranges::any_of(slots_, [&](Qp* qp) { return qp != nullptr && is(*qp); });
  }

 private:
  // QP1 has a slot of its own, the last.
  Qp*& slot_of(uint32_t qpn) {
    if (qpn == kGsiQpn) [[unlikely]]
      return slots_.back();
    return slots_[(qpn >> shift_) & mask_];
  }

  uint32_t shift_;
  uint32_t mask_;
  std::vector<Qp*> slots_;
  const EngineConfig& config_;
};

}  // namespace uroce::transport
