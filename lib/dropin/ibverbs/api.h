// Calls that the public API does not have yet: each is used where the API has it, and answers EOPNOTSUPP where it does
// not. One place to change.
#pragma once

#include <cerrno>
#include <cstdint>

#include <uroce/verbs.h>

namespace uroce::dropin::api {

/// Changes what a region is, keeping its keys. A null `pd` or `address`, or a null `access`, keeps that part.
template <class Mr>
Result<void> reregister(Mr& mr, const ProtectionDomain* pd, void* address, std::size_t length,
                        const AccessFlags* access) {
  if constexpr (requires { mr.reregister(pd, address, length, access); }) {
    return mr.reregister(pd, address, length, access);
  } else {
    return fail(EOPNOTSUPP, "this release cannot change a region");
  }
}

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
