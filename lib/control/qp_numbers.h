// The QPNs of a device: those in use, their limit, and whether QP1 is in use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "control/qpn_allocator.h"

namespace uroce::control {

/// Callers hold the control lock.
class QpNumbers {
 public:
  /// `device`: its name, for messages.
  QpNumbers(std::string device, uint32_t max_qp) : device_(std::move(device)), max_qp_(max_qp) {}

  /// Call it for each engine in turn.
  void add_engine(QpnAllocator allocator) { by_engine_.push_back(std::move(allocator)); }

  /// For go_on_with() of another daemon's, by engine.
  std::vector<QpnNumbers> numbers() const;
  /// See QpnAllocator::go_on_with().
  bool go_on_with(const std::vector<QpnNumbers>& numbers);

  /// A QPN of `engine`. Errors: ENOMEM (max_qp).
  Result<uint32_t> take(uint32_t engine);
  /// One that another daemon gave. Errors: EINVAL (in use, or not the engine's), ENOMEM (max_qp).
  Result<uint32_t> take(uint32_t engine, uint32_t qpn);
  /// QP1. Errors: EBUSY (in use).
  Result<uint32_t> take_gsi();
  /// `qpn` came from one of these.
  void give_back(uint32_t engine, uint32_t qpn);

 private:
  std::string device_;
  uint32_t max_qp_;
  uint32_t used_ = 0;  // without QP1
  bool gsi_taken_ = false;
  std::vector<QpnAllocator> by_engine_;
};

}  // namespace uroce::control
