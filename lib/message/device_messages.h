// Opening a device, and queries of the device as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <uroce/verbs/device.h>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

struct OpenDevice {
  std::string name{};
  static void fields(auto& self, auto& archive) { archive(self.name); }
};

/// Descriptors: the pipe of asynchronous events, then one per engine; a byte written to that one wakes the engine.
struct OpenDeviceReply {
  DeviceInfo device{};
  Place doorbells{};  ///< one ring per engine
  uint32_t doorbell_entries = 0;
  static void fields(auto& self, auto& archive) { archive(self.device, self.doorbells, self.doorbell_entries); }
};

/// One event in the pipe of asynchronous events.
struct AsyncRecord {
  uint32_t type = 0;
  uint32_t object = 0;
};
static_assert(sizeof(AsyncRecord) == 8);

struct Counters {
  std::vector<std::pair<std::string, uint64_t>> values{};
  static void fields(auto& self, auto& archive) { archive(self.values); }
};

struct Clock {
  uint64_t ns = 0;
  static void fields(auto& self, auto& archive) { archive(self.ns); }
};

/// The GID table now; DeviceInfo has it as it was when the device was opened.
struct Gids {
  std::vector<std::array<uint8_t, 16>> bytes{};
  static void fields(auto& self, auto& archive) { archive(self.bytes); }
};

struct LinkUp {
  bool up = false;
  static void fields(auto& self, auto& archive) { archive(self.up); }
};

}  // namespace uroce::message
