// The knowledge of one device's connection manager, for another one that goes on with it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/secret.h"
#include "base/time.h"
#include "cm/ib/connection.h"

namespace uroce::cm {

/// The stream of connection ids: the other manager gives none again that this one has given.
struct CommIdsSnapshot {
  SecretPermutation::Key key{};
  uint32_t given = 0;
};

struct ConnectionSnapshot {
  CmConnection c{};
  std::optional<Nanos> timer{};  ///< the time that is left
};

}  // namespace uroce::cm
