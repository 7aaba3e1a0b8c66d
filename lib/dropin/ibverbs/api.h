// Calls that the public API does not have yet. Each is used where the API has it, and returns EOPNOTSUPP where it does
// not.
#pragma once

#include <cerrno>
#include <cstdint>

#include <uroce/error.h>
#include <uroce/types.h>

namespace uroce::dropin::api {

/// The Ethernet address that frames to `av` go to.
template <class Ctx>
Result<EthAddr> resolve(Ctx& context, const AddressVector& av) {
  if constexpr (requires { context.resolve(av); }) {
    return context.resolve(av);
  } else {
    return fail(EOPNOTSUPP, "this release does not show what it resolved");
  }
}

}  // namespace uroce::dropin::api
