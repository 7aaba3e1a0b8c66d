#include "service/capacity.h"

#include <algorithm>

#include <sys/resource.h>

#include "service/machine_budget.h"
#include "service/memory_room.h"

namespace uroce::service {
namespace {

/// The port numbers of a port space.
constexpr uint64_t kCmIds = 65536;

uint64_t descriptors_of_process() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

}  // namespace

// The machine has other programs, too.
void Capacity::set_memory(uint64_t bytes) {
  memory = bytes < whole[Resource::registered_bytes] ? bytes : UINT64_MAX;
  shared[Resource::queue_bytes] = whole[Resource::queue_bytes] = std::min(bytes, whole[Resource::registered_bytes] / 4);
}

Capacity capacity_of(const std::vector<std::shared_ptr<control::Device>>& devices, uint32_t max_clients) {
  Capacity out;
  PerResource<uint64_t>& all = out.shared;
  all[Resource::connection] = max_clients;
  all[Resource::pd] = control::kManyPds;
  all[Resource::cm_id] = kCmIds;
  all[Resource::descriptor] = descriptors_of_process();
  all[Resource::mapping] = most_mappings();
  all[Resource::registered_bytes] = memory_room().machine();
  out.whole = all;
  out.set_memory(memory_room().memory());
  constexpr std::pair<Resource, uint32_t DeviceInfo::*> kOfDevices[] = {
      {Resource::qp, &DeviceInfo::max_qp},   {Resource::cq, &DeviceInfo::max_cq},
      {Resource::srq, &DeviceInfo::max_srq}, {Resource::mr, &DeviceInfo::max_mr},
      {Resource::ah, &DeviceInfo::max_ah},   {Resource::flow, &DeviceInfo::max_flow}};
  for (const auto& [resource, member] : kOfDevices) {
    all[resource] = UINT32_MAX;
    for (const auto& device : devices) {
      const uint64_t of_device = device->info().*member;
      all[resource] = std::min(all[resource], of_device);
      out.whole[resource] += of_device;
    }
  }
  return out;
}

}  // namespace uroce::service
