// What the operator's tool shows: one plain struct per kind of object, as the daemon tells it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <uroce/verbs.h>

#include "message/operator_messages.h"

namespace uroce::cli {

using DeviceRow = DeviceInfo;
using ClientRow = message::ClientRow;

/// A queue pair, memory region or completion queue of one client.
struct ObjectRow {
  std::string device{};
  uint32_t client = 0;  ///< ClientRow::id
  /// What the daemon tells of it, name and value, in its order; rows of one kind may differ.
  std::vector<std::pair<std::string, std::string>> values{};
};

/// Counters of one device by name, each only growing.
struct CounterRow {
  std::string device{};
  std::vector<std::pair<std::string, uint64_t>> counters{};
};

}  // namespace uroce::cli
