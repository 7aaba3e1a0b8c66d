// Holdings count what each host has of the target after Connect, by its address and by its NQN. They know no
// controller.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "nvmf/bounds.h"

namespace uroce::nvmf {

/// The host of a queue. NQNs are claims, and addresses can be forged: a bound for each holds whoever changes the other.
struct Holder {
  std::string address{};
  std::string nqn{};
  bool listed = false;
};

class Holdings {
 public:
  /// `reserve`: hosts that are not listed leave room for those that are.
  Holdings(const Bounds& bounds, bool reserve) : bounds_(bounds), reserve_(reserve) {}

  /// Takes `wanted` for the host where that stays within all bounds. False: nothing is taken.
  bool take(const Holder& host, const Held& wanted);
  /// Gives back what take() took.
  void give(const Holder& host, const Held& held);
  const Held& all() const { return all_; }

 private:
  using Hosts = std::map<std::string, Held, std::less<>>;

  const Bounds bounds_;
  const bool reserve_;
  Held all_{}, unlisted_{};
  Hosts addresses_{}, names_{};  // where there is anything
};

/// A new controller with its admin queue.
constexpr Held controller_of(bool discovery) {
  return {.controllers = discovery ? 0u : 1u, .discovery = discovery ? 1u : 0u, .queues = 1};
}
inline constexpr Held kIoQueue{.queues = 1};

}  // namespace uroce::nvmf
