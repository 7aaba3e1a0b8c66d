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

template <class Cq>
Result<void> resize(Cq& cq, uint32_t entries) {
  if constexpr (requires { cq.resize(entries); }) {
    return cq.resize(entries);
  } else {
    return fail(EOPNOTSUPP, "this release cannot enlarge a completion queue");
  }
}

/// Whether clock_ns() tells the time that completions are stamped with.
template <class Ctx>
concept HasClock = requires(const Ctx& context) { context.clock_ns(); };
inline constexpr bool kHasClock = HasClock<Context>;

template <class Ctx>
uint64_t clock_ns(const Ctx& context) {
  if constexpr (HasClock<Ctx>) return context.clock_ns().value_or(0);
  return 0;
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
