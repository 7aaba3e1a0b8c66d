#include "dropin/rsocket/settings.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

namespace {

std::optional<uint32_t> read_number(const char* name) {
  std::ifstream file(std::string("/etc/rdma/rsocket/") + name);
  uint32_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

Settings read_settings() {
  Settings out;
  const auto set = [](const char* name, uint32_t& to, uint32_t least, uint32_t most) {
    if (const auto value = read_number(name)) to = std::clamp(*value, least, most);
  };
  constexpr uint32_t kMemoryMax = 1u << 30;
  set("inline_default", out.inline_bytes, 0, kQueueMax);
  set("sqsize_default", out.send_queue, kQueueMin, kQueueMax);
  set("rqsize_default", out.receive_queue, kQueueMin, kQueueMax);
  set("mem_default", out.receive_bytes, 2, kMemoryMax);
  set("wmem_default", out.send_bytes, 2 * kLowWater, kMemoryMax);
  if (const auto entries = read_number("iomap_size")) out.mappings = wire::mapping_entries(*entries);
  if (const auto time = read_number("polling_time")) out.polling_time = std::chrono::microseconds(*time);
  if (const auto time = read_number("wake_up_interval")) out.wake_up_interval = std::chrono::milliseconds(*time);
  return out;
}

}  // namespace

const Settings& settings() {
  static const Settings kRead = read_settings();
  return kRead;
}

}  // namespace uroce::dropin::rsocket
