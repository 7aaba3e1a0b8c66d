#include "service/left_objects.h"

#include <algorithm>

#include <fmt/format.h>

#include "cm/manager.h"
#include "control/cq.h"

namespace uroce::service {
namespace {

/// More of them do not change what is to be done.
constexpr std::size_t kMostIds = 1000;

void add(History::Objects& to, const std::string& kind, uint64_t number) {
  if (number == 0) return;
  const auto same = std::ranges::find(to, kind, [](const auto& one) { return one.first; });
  same != to.end() ? same->second += number : to.emplace_back(kind, number).second;
}

uint64_t unread_completions(const ClientState& device) {
  uint64_t sum = 0;
  for (const auto& [id, cq] : device.cqs.after(0, device.cqs.size())) sum += cq->unread();
  return sum;
}

}  // namespace

History::Objects left_objects_of(const std::vector<ClientState*>& devices) {
  History::Objects left;
  const auto add_all = [&left](const auto&... tables) { (add(left, tables.kind(), tables.size()), ...); };
  for (const ClientState* const device : devices) {
    add_all(device->qps, device->srqs, device->cqs, device->channels, device->regions, device->windows,
            device->address_handles, device->flows, device->xrc_domains, device->pds);
    add(left, "unread completion", unread_completions(*device));
    const cm::Manager* const manager = device->server.connections();
    if (manager != nullptr && device->stands_for_program()) {
      add(left, "connection id", manager->rows(device->id, 0, kMostIds).size());
    }
  }
  return left;
}

std::string text_of(const History::Objects& objects) {
  std::string out;
  for (const auto& [kind, number] : objects) {
    out += fmt::format("{}{} {}{}", out.empty() ? "" : ", ", number, kind, number == 1 ? "" : "s");
  }
  return out;
}

}  // namespace uroce::service
