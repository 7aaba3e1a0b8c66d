// Multicast groups of UD ids (rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3)).
#include <atomic>
#include <cstring>

#include "dropin/rdmacm/address.h"
#include "dropin/rdmacm/objects.h"

namespace uroce::dropin::rdmacm {

namespace {

int join(Id& id, const sockaddr* address, bool send_only, void* context) {
  static std::atomic<uint64_t> next_token{1};
  const auto group = to_address(address);
  if (!group) return minus_one(EINVAL);
  auto made = std::make_unique<Multicast>();
  std::memcpy(&made->address, address, address_length(address));
  made->group = *group;
  made->context = context;
  made->send_only = send_only;
  const uint64_t token = next_token++;
  {
    const std::lock_guard lock(id.client->mutex);
    id.groups.emplace(token, std::move(made));  // before the join event can arrive
  }
  const auto asked = id.api.join(*group, token);
  if (asked) return complete(id);
  {
    const std::lock_guard lock(id.client->mutex);
    id.groups.erase(token);
  }
  return report_minus_one(asked.error());
}

/// Removes the group of that address from the id; null when the id has not joined it.
std::unique_ptr<Multicast> take_off(Id& id, const sockaddr* address, socklen_t length) {
  const std::lock_guard lock(id.client->mutex);
  for (auto at = id.groups.begin(); at != id.groups.end(); ++at) {
    if (std::memcmp(&at->second->address, address, length) != 0) continue;
    auto group = std::move(at->second);
    id.groups.erase(at);
    return group;
  }
  return nullptr;
}

}  // namespace

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_join_multicast(rdma_cm_id* id, sockaddr* addr, void* context) { return join(*of(id), addr, false, context); }

int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  constexpr uint32_t kNeeded = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return minus_one(ENOTSUP);
  if (attr->comp_mask != kNeeded || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return minus_one(EINVAL);
  return join(*of(id), attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

int rdma_leave_multicast(rdma_cm_id* cm_id, sockaddr* addr) {
  Id& id = *of(cm_id);
  const socklen_t length = address_length(addr);
  if (length == 0) return minus_one(EINVAL);
  const auto group = take_off(id, addr, length);
  if (group == nullptr) return minus_one(EADDRNOTAVAIL);
  if (id.qp != nullptr && group->attached) ibv_detach_mcast(id.qp, &group->mgid, 0);
  const auto left = id.api.leave(group->group);
  wait_for_acks(*id.client, group->events);
  return done(left);
}

}  // extern "C"
