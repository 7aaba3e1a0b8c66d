// The versions in which a daemon writes what its clients have: the newest that its successor reads.
#pragma once

#include <cstdint>

#include <uroce/error.h>

#include "message/succession_messages.h"

namespace uroce::service {

/// The versions of this release.
message::SuccessorVersions own_versions();

struct EstateVersions {
  uint32_t estate = own_versions().estate.newest;
  uint32_t snapshot = own_versions().snapshot.newest;
  message::VersionRange protocol = own_versions().protocol;  ///< of the clients that can go over
};

/// Errors: EPROTONOSUPPORT (there is no version of one of them that both have).
Result<EstateVersions> common_versions(const message::SuccessorVersions& own,
                                       const message::SuccessorVersions& successors);

}  // namespace uroce::service
