// The rows of the operator's tool: one plain struct for each kind of object, as the daemon reports it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <uroce/verbs/device.h>

#include "message/operator_messages.h"

namespace uroce::cli {

using DeviceRow = DeviceInfo;
using ClientRow = message::ClientRow;
using UserRow = message::UserRow;
using RestartRow = message::RestartRow;
using EngineRow = message::EngineRow;
using FaultRow = message::FaultRow;

/// An object of one client.
struct ObjectRow {
  std::string device{};
  uint32_t client = 0;  ///< ClientRow::id
  int32_t pid = 0;
  std::string command{};
  /// Names and values from the daemon, in its order. Rows of one kind may differ.
  std::vector<std::pair<std::string, std::string>> values{};
};

/// An address that sent a device frames for what it should not know.
struct PeerRow {
  std::string device{};
  message::PeerRow peer{};
};

/// Counters of one device by name; they only grow.
struct CounterRow {
  std::string device{};
  std::vector<std::pair<std::string, uint64_t>> counters{};
};

}  // namespace uroce::cli
