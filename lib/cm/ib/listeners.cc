#include "cm/ib/listeners.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fmt/format.h>

namespace uroce::cm {

Result<void> Listeners::add(uint64_t service_id, uint64_t mask, Listener listener) {
  auto at = std::ranges::find(masks_, mask, [](const auto& entry) { return entry.first; });
  if (at == masks_.end()) {
    at = std::ranges::find_if(masks_,
                              [&](const auto& entry) { return std::popcount(entry.first) < std::popcount(mask); });
    at = masks_.insert(at, {mask, {}});
  }
  if (at->second.try_emplace(service_id & mask, std::move(listener)).second) return {};
  return fail(EADDRINUSE, fmt::format("service {:#x} with mask {:#x} has a listener already; stop that listener, or "
                                      "choose another service",
                                      service_id & mask, mask));
}

void Listeners::remove(uint64_t service_id, uint64_t mask) {
  const auto at = std::ranges::find(masks_, mask, [](const auto& entry) { return entry.first; });
  if (at == masks_.end()) return;
  at->second.erase(service_id & mask);
  if (at->second.empty()) masks_.erase(at);
}

const Listener* Listeners::find(uint64_t service_id) const {
  for (const auto& [mask, services] : masks_) {
    const auto it = services.find(service_id & mask);
    if (it != services.end()) return &it->second;
  }
  return nullptr;
}

}  // namespace uroce::cm
