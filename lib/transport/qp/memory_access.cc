#include "transport/qp/memory_access.h"

#include <algorithm>
#include <cstring>

namespace uroce::transport {

WcStatus scatter(const Context& ctx, memory::PdId pd, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload) {
  for (const Sge& sge : sges) {
    if (payload.empty()) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(payload.size(), sge.length - offset);
    const auto place = ctx.regions.translate(sge.lkey, pd, sge.addr + offset, piece, Access::local_write);
    if (place.result != memory::AccessResult::ok) return WcStatus::local_protection_error;
    if (place.host != nullptr) [[likely]]  // a null region drops what is written
      std::memmove(place.host, payload.data(), piece);
    payload = payload.subspan(piece);
    offset = 0;
  }
  return payload.empty() ? WcStatus::success : WcStatus::local_length_error;
}

}  // namespace uroce::transport
