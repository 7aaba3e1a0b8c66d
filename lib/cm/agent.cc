#include "cm/agent.h"

#include <algorithm>

namespace uroce::cm {

std::optional<uint8_t> CmAgent::gid_index(const Gid& gid) const {
  const auto gids = device->gids();
  const auto found = std::ranges::find(gids, gid);
  return found == gids.end() ? std::nullopt : std::optional(static_cast<uint8_t>(found - gids.begin()));
}

}  // namespace uroce::cm
