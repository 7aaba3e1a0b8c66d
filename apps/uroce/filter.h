// The choice of rows by what `uroce show` is asked for.
#pragma once

#include <cstdint>
#include <optional>

#include <uroce/types.h>

#include "uroce/rows.h"

namespace uroce::cli {

/// A member without a value chooses every row.
struct Filter {
  std::optional<int32_t> pid{};
  std::optional<uint32_t> qpn{};  ///< of a queue pair here, or of the peer's
  std::optional<Gid> address{};   ///< with any port
};

bool chooses(const Filter& filter, const ObjectRow& row);
bool chooses(const Filter& filter, const ClientRow& row);

}  // namespace uroce::cli
