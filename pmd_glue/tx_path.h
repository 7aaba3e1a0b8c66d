// The way of finished mbufs to a port.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <rte_mbuf.h>

#include "pmd_glue/port.h"

namespace uroce::glue {

/// Takes finished mbufs. One thread uses it.
class TxPath {
 public:
  virtual ~TxPath() = default;
  /// Takes a prefix of `mbufs` and returns its length.
  virtual uint16_t push(std::span<rte_mbuf*> mbufs) = 0;
  /// Frees sent mbufs, for drivers that keep them until asked.
  virtual void reclaim() {}
  /// Somebody sees the frames inside the driver's burst.
  virtual bool shows_sent() const { return false; }
  /// True once after a burst that faulted. Its mbufs are neither sent nor ever freed.
  bool take_fault() { return std::exchange(faulted_, false); }

 protected:
  bool faulted_ = false;
};

/// Sends straight to a TX queue.
class QueuePath final : public TxPath {
 public:
  QueuePath(const Port& port, uint16_t queue) : port_(port), queue_(queue), needs_guard_(port.needs_guard()) {}
  uint16_t push(std::span<rte_mbuf*> mbufs) override;
  void reclaim() override;
  bool shows_sent() const override { return port_.shows_sent(queue_); }

 private:
  const Port& port_;
  const uint16_t queue_;
  const bool needs_guard_;
};

}  // namespace uroce::glue
