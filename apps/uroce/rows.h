// What the operator's tool shows: one plain struct per kind of object, as the daemon tells it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <uroce/types.h>
#include <uroce/verbs.h>

#include "service/server.h"

namespace uroce::cli {

using DeviceRow = DeviceInfo;
using ClientRow = service::ClientInfo;

struct QpRow {
  std::string device{};
  uint32_t qpn = 0;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  uint32_t client = 0;  ///< ClientRow::id
  Gid peer{};           ///< of connected types, from RTR on
  uint32_t peer_qpn = 0;
  uint32_t sq_psn = 0;  ///< of the next packet sent
  uint32_t rq_psn = 0;  ///< of the next packet expected
  uint32_t engine = 0;
  uint32_t outstanding = 0;      ///< send work requests not yet completed
  uint64_t retransmissions = 0;  ///< packets sent again
};

struct MrRow {
  std::string device{};
  uint32_t key = 0;
  uint64_t length = 0;  ///< bytes
  AccessFlags access{};
  uint32_t client = 0;
};

struct CqRow {
  std::string device{};
  uint32_t id = 0;
  uint32_t entries = 0;
  uint32_t client = 0;
};

/// Counters of one device by name, each only growing.
struct CounterRow {
  std::string device{};
  std::vector<std::pair<std::string, uint64_t>> counters{};
};

}  // namespace uroce::cli
