#include "pmd_glue/telemetry.h"

#include <rte_telemetry.h>
#include <rte_version.h>

#include <cstdint>
#include <mutex>
#include <string>

namespace uroce::glue {

namespace {

// DPDK's commands can be registered but never removed. The reader behind this command can be removed.
std::mutex g_mutex;
Telemetry::Read g_read;
bool g_registered = false;

void add_counter(rte_tel_data* dict, const std::string& name, std::uint64_t value) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  rte_tel_data_add_dict_uint(dict, name.c_str(), value);
#else
  rte_tel_data_add_dict_u64(dict, name.c_str(), value);
#endif
}

int answer(const char*, const char* device, rte_tel_data* out) {
  const std::lock_guard lock(g_mutex);
  if (!g_read) return -1;
  rte_tel_data_start_dict(out);
  for (const auto& [name, counters] : g_read()) {
    if (device != nullptr && name != device) continue;
    rte_tel_data* dict = rte_tel_data_alloc();
    if (dict == nullptr) return -1;
    rte_tel_data_start_dict(dict);
    for (const auto& [counter, value] : counters) add_counter(dict, counter, value);
    rte_tel_data_add_dict_container(out, name.c_str(), dict, 0);
  }
  return 0;
}

}  // namespace

Telemetry::Telemetry(Read read) {
  const std::lock_guard lock(g_mutex);
  g_read = std::move(read);
  if (g_registered) return;
  g_registered = rte_telemetry_register_cmd("/uroce/counters", answer,
                                            "Counters of all devices, or of one. Parameters: device name") == 0;
}

Telemetry::~Telemetry() {
  const std::lock_guard lock(g_mutex);
  g_read = nullptr;
}

}  // namespace uroce::glue
