// Calls of the public API that have grown with it: each is used where the API has it, and answers EOPNOTSUPP or the
// plain default where it does not. One place to change.
#pragma once

#include <cerrno>
#include <cstdint>

#include <uroce/verbs.h>

namespace uroce::dropin::api {

// -- Memory
// ------------------------------------------------------------------------------------------------------------

/// Registers memory that work requests and peers address from `iova` on.
template <class Pd>
Result<MemoryRegion> register_memory(Pd& pd, void* address, std::size_t length, uint64_t iova, AccessFlags access) {
  access = access.without(Access::zero_based);
  if (iova == reinterpret_cast<uint64_t>(address)) return pd.register_memory(address, length, access);
  if (iova == 0) return pd.register_memory(address, length, access | Access::zero_based);
  if constexpr (requires { pd.register_memory(address, length, access, iova); }) {
    return pd.register_memory(address, length, access, iova);
  } else {
    return fail(EOPNOTSUPP, "a region's first address is its memory's, or 0");
  }
}

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

// -- Queues
// ------------------------------------------------------------------------------------------------------------

template <class Cq>
uint32_t entries(const Cq& cq, uint32_t asked) {
  if constexpr (requires { cq.entries(); }) return cq.entries();
  return asked;
}

template <class Cq>
Result<void> resize(Cq& cq, uint32_t entries) {
  if constexpr (requires { cq.resize(entries); }) {
    return cq.resize(entries);
  } else {
    return fail(EOPNOTSUPP, "this release cannot enlarge a completion queue");
  }
}

template <class Srq>
uint32_t max_wr(const Srq& srq, uint32_t asked) {
  if constexpr (requires { srq.max_wr(); }) return srq.max_wr();
  return asked;
}

template <class Srq>
uint32_t max_sge(const Srq& srq, uint32_t asked) {
  if constexpr (requires { srq.max_sge(); }) return srq.max_sge();
  return asked;
}

// -- The device
// --------------------------------------------------------------------------------------------------------

template <class Ctx>
bool link_up(const Ctx& context) {
  if constexpr (requires { context.link_up(); }) return context.link_up().value_or(false);
  return context.info().link_up;
}

/// Whether clock_ns() tells the time that completions are stamped with.
template <class Ctx>
concept HasClock = requires(const Ctx& context) { context.clock_ns(); };
inline constexpr bool kHasClock = HasClock<Context>;

template <class Ctx>
uint64_t clock_ns(const Ctx& context) {
  if constexpr (HasClock<Ctx>) return context.clock_ns();
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
