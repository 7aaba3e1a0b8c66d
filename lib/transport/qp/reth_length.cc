#include "transport/qp/reth_length.h"

#include <cstring>

#include "transport/qp/translate.h"

namespace uroce::transport {

WriteTarget begin_write(const Context& ctx, Qp& qp, const wire::Reth& reth) {
  if (reth.length > kMaxMessage) return WriteTarget::too_long;
  if (reth.length > 0 &&
      translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_write).result != memory::AccessResult::ok) {
    return WriteTarget::no_access;
  }
  auto& rx = qp.rx;
  rx.write_va = reth.va;
  rx.write_left = reth.length;
  rx.rkey = reth.rkey;
  rx.received = reth.length;
  return WriteTarget::ok;
}

memory::Translation next_write_place(const Context& ctx, const Qp& qp, uint32_t length) {
  return translate(ctx, qp, qp.rx.rkey, qp.rx.write_va, length, Access::remote_write);
}

void place_write(Qp& qp, const memory::Translation& place, std::span<const std::byte> payload) {
  auto& rx = qp.rx;
  const auto length = static_cast<uint32_t>(payload.size());
  if (length > 0) std::memcpy(place.host, payload.data(), length);
  rx.write_va += length;
  rx.write_left -= length;
  rx.message = Recv::write;
}

}  // namespace uroce::transport
