// The settings, counters and transaction ids that the parts of the connection manager share. Nothing here leads to
// another connection, to a table or to a timer. Only IbCm changes those, by the outcomes that the parts return
// (outcome.h).
#pragma once

#include <cstdint>

#include "base/secret.h"
#include "cm/ib/counters.h"

namespace uroce::cm {

struct IbCmConfig {
  uint64_t ca_guid = 0;
  uint32_t max_connections = 65536;  ///< including those in time-wait
  Secret seed = 0;                   ///< for ids and transaction ids
};

struct CmContext {
  explicit CmContext(const IbCmConfig& config) : ca_guid(config.ca_guid), transaction_ids(config.seed.derive("tids")) {}

  const uint64_t ca_guid;
  SecretStream transaction_ids;
  IbCmCounters counters;
};

}  // namespace uroce::cm
