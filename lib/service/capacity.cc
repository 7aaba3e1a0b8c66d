#include "service/capacity.h"

#include <algorithm>

#include <sys/resource.h>
#include <unistd.h>

#include "service/machine_budget.h"

namespace uroce::service {
namespace {

/// The port numbers of a port space.
constexpr uint64_t kCmIds = 65536;

uint64_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : uint64_t{1} << 30;
}

uint64_t descriptors_of_process() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

}  // namespace

Capacity capacity_of(const std::vector<std::shared_ptr<control::Device>>& devices, uint32_t max_clients) {
  Capacity out;
  PerResource<uint64_t>& all = out.shared;
  all[Resource::connection] = max_clients;
  all[Resource::pd] = control::kManyPds;
  all[Resource::cm_id] = kCmIds;
  all[Resource::descriptor] = descriptors_of_process();
  all[Resource::mapping] = most_mappings();
  all[Resource::queue_bytes] = memory_of_machine() / 4;
  all[Resource::registered_bytes] = memory_of_machine();
  out.whole = all;
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
