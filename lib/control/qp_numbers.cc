#include "control/qp_numbers.h"

#include <cerrno>

#include <fmt/format.h>

#include "transport/qp/qp.h"

namespace uroce::control {

std::vector<QpnNumbers> QpNumbers::numbers() const {
  std::vector<QpnNumbers> numbers;
  for (const QpnAllocator& engine : by_engine_) numbers.push_back(engine.numbers());
  return numbers;
}

bool QpNumbers::go_on_with(const std::vector<QpnNumbers>& numbers) {
  bool good = numbers.size() == by_engine_.size();
  for (std::size_t i = 0; good && i < numbers.size(); ++i) good = by_engine_[i].go_on_with(numbers[i]);
  return good;
}

Result<uint32_t> QpNumbers::take(uint32_t engine) {
  const auto qpn = used_ < max_qp_ ? by_engine_[engine].take() : std::nullopt;
  if (!qpn) {
    return fail(ENOMEM, fmt::format("{} has {} queue pairs, which is the limit (max_qp); destroy some or raise it",
                                    device_, used_));
  }
  ++used_;
  return *qpn;
}

Result<uint32_t> QpNumbers::take(uint32_t engine, uint32_t qpn) {
  if (used_ >= max_qp_ || !by_engine_[engine].take(qpn)) {
    return fail(
        used_ >= max_qp_ ? ENOMEM : EINVAL,
        fmt::format("{} cannot have queue pair {:#x} on engine {}: it has {} of {} (max_qp), and perhaps one of "
                    "this number",
                    device_, qpn, engine, used_, max_qp_));
  }
  ++used_;
  return qpn;
}

Result<uint32_t> QpNumbers::take_gsi() {
  if (gsi_taken_) {
    return fail(EBUSY, fmt::format("QP1 of {} is in use already: one connection manager serves a device", device_));
  }
  gsi_taken_ = true;
  return transport::kGsiQpn;
}

void QpNumbers::give_back(uint32_t engine, uint32_t qpn) {
  if (qpn == transport::kGsiQpn) {
    gsi_taken_ = false;
    return;
  }
  by_engine_[engine].give_back(qpn);
  --used_;
}

}  // namespace uroce::control
