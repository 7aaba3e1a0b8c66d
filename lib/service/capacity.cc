#include "service/capacity.h"

#include <algorithm>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include "control/device_limits.h"

namespace uroce::service {
namespace {

constexpr uint64_t kPds = 65536;
/// The port numbers of a port space.
constexpr uint64_t kCmIds = 65536;
/// The kernel's default of vm.max_map_count.
constexpr uint64_t kUsualMappings = 65530;

uint64_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : uint64_t{1} << 30;
}

uint64_t descriptors_of_process() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

uint64_t mappings_of_process() {
  uint64_t most = kUsualMappings;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return most;
}

}  // namespace

PerResource<uint64_t> capacity_of(const std::vector<std::shared_ptr<control::Device>>& devices, uint32_t max_clients) {
  PerResource<uint64_t> all;
  const auto least = [&devices](auto member) {
    uint64_t found = UINT32_MAX;
    for (const auto& device : devices) found = std::min<uint64_t>(found, device->info().*member);
    return found;
  };
  all[Resource::connection] = max_clients;
  all[Resource::qp] = least(&DeviceInfo::max_qp);
  all[Resource::cq] = least(&DeviceInfo::max_cq);
  all[Resource::srq] = least(&DeviceInfo::max_srq);
  all[Resource::mr] = least(&DeviceInfo::max_mr);
  all[Resource::pd] = kPds;
  all[Resource::ah] = least(&DeviceInfo::max_ah);
  all[Resource::cm_id] = kCmIds;
  all[Resource::descriptor] = descriptors_of_process();
  all[Resource::mapping] = mappings_of_process();
  all[Resource::queue_bytes] = memory_of_machine() / 4;
  all[Resource::registered_bytes] = memory_of_machine();
  return all;
}

}  // namespace uroce::service
