// A queue pair's access to registered memory.
#pragma once

#include <cstring>
#include <span>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Looks up memory, and checks key and bounds for the QP's protection domain and its QPN.
inline memory::Translation translate(const Context& ctx, const Qp& qp, uint32_t key, uint64_t address, uint64_t length,
                                     AccessFlags needed) {
  return ctx.regions.translate(key, qp.pd, address, length, needed, qp.qpn);
}

/// Places `payload` at byte `offset` of a scatter list. Local length error: it does not fit.
/// Local protection error: a key or bound is wrong, or the memory is not of domain `pd`.
WcStatus scatter(const Context& ctx, memory::PdId pd, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload);

/// As scatter(), into one entry, for shortcuts. False: nothing is done, and scatter() finds what is different or wrong.
inline bool place_in_one(const Context& ctx, memory::PdId pd, const Sge& sge, uint64_t offset,
                         std::span<const std::byte> bytes) {
  if (offset + bytes.size() > sge.length) return false;
  const auto place = ctx.regions.translate(sge.lkey, pd, sge.addr + offset, bytes.size(), Access::local_write);
  // A null region has no place: it drops the bytes.
  if (place.result != memory::AccessResult::ok || place.host == nullptr) return false;
  std::memmove(place.host, bytes.data(), bytes.size());
  return true;
}

}  // namespace uroce::transport
