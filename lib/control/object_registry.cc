#include "control/object_registry.h"

#include <cerrno>

#include <fmt/format.h>

namespace uroce::control {

ObjectRegistry::ObjectRegistry(const std::string& device, const Limits& limits, const Secret& seed)
    : device_(device),
      keys_(device, limits.max_mr, seed),
      address_handles_(device),
      qp_numbers_(device, limits.max_qp),
      cqs_(kMaxCq),
      srqs_(kMaxSrq) {}

DeviceNumbers ObjectRegistry::numbers() const {
  return {.keys = keys_.table().numbers(), .qpns = qp_numbers_.numbers(), .last_flow = last_flow_};
}

bool ObjectRegistry::go_on_with(const DeviceNumbers& numbers) {
  last_flow_ = numbers.last_flow;
  return keys_.table().go_on_with(numbers.keys) && qp_numbers_.go_on_with(numbers.qpns);
}

Result<uint32_t> ObjectRegistry::take_session() {
  if (sessions_ == kMaxSessions) {
    return fail(ENOMEM,
                fmt::format("{} is open {} times already, which is the limit; close one", device_, kMaxSessions));
  }
  ++sessions_;
  return session_numbers_.take();
}

Result<uint32_t> ObjectRegistry::take_cq() {
  if (const auto id = cqs_.take()) return *id;
  return fail(ENOMEM, fmt::format("{} has {} completion queues, which is the limit (max_cq); share one between "
                                  "queue pairs",
                                  device_, kMaxCq));
}

Result<uint32_t> ObjectRegistry::take_cq(uint32_t id) {
  if (cqs_.take(id)) return id;
  return fail(EINVAL, fmt::format("{} has a completion queue {} already, or no such number", device_, id));
}

Result<uint32_t> ObjectRegistry::take_srq(uint32_t id) {
  if (srqs_.take(id)) return id;
  return fail(EINVAL, fmt::format("{} has a shared receive queue {} already, or no such number", device_, id));
}

Result<uint32_t> ObjectRegistry::take_srq() {
  if (const auto id = srqs_.take()) return *id;
  return fail(ENOMEM, fmt::format("{} has {} shared receive queues, which is the limit (max_srq); share one between "
                                  "queue pairs",
                                  device_, kMaxSrq));
}

}  // namespace uroce::control
