#include "service/newer_than.h"

#include <algorithm>

#include "control/cq.h"
#include "control/qp.h"
#include "control/srq.h"
#include "service/cm_rows.h"
#include "service/estate_rows.h"
#include "service/xrc_rows.h"

namespace uroce::service {
namespace {

/// Members of rows that were there before (Writer::since()).
constexpr uint32_t kGoneRegions = 2;
constexpr uint32_t kClosedChannels = 2;

template <class T, class Is>
bool any_of(const Handles<T>& objects, const Is& is) {
  const auto all = objects.after(0, SIZE_MAX);
  return std::ranges::any_of(all, [&](const auto& entry) { return is(*entry.second); });
}

bool uses_xrc(const ClientState& client) {
  return client.xrc_domains.size() != 0 || any_of(client.srqs, [](const auto& srq) { return srq.is_xrc(); }) ||
         any_of(client.qps, [](const auto& qp) { return is_xrc(qp.type()); });
}

bool outlives_its_channel(const ClientState& client) {
  const auto channels = client.channels.after(0, SIZE_MAX);
  return any_of(client.cqs, [&](const control::Cq& cq) {
    const auto is_its = [&](const auto& entry) { return entry.second == cq.channel(); };
    return cq.channel() != nullptr && std::ranges::none_of(channels, is_its);
  });
}

std::optional<std::string_view> newer_than(uint32_t version, const ClientState& client) {
  if (version < since<XrcDomainRow>() && uses_xrc(client)) return "XRC objects";
  if (version < since<FlowRow>() && client.flows.size() != 0) return "receive rules";
  if (version < since<PreparedRow>() && client.prepared) return "a registration of many segments that has begun";
  if (version < kGoneRegions && any_of(client.regions, [](const auto& one) { return one.region == nullptr; })) {
    return "a memory region whose pages it has removed";
  }
  if (version < kClosedChannels && outlives_its_channel(client)) return "a completion queue that outlives its channel";
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> newer_than(uint32_t version, const Program& program,
                                           std::span<ClientState* const> devices) {
  if (version < since<CmProgramRow>() && program.connections != nullptr) return "rdma_cm open";
  for (const ClientState* client : devices) {
    if (client->session == nullptr) continue;
    if (const auto found = newer_than(version, *client)) return found;
  }
  return std::nullopt;
}

}  // namespace uroce::service
