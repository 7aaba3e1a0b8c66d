#include "client/impl.h"

namespace uroce {

Result<AddressHandle> ProtectionDomain::create_address_handle(const AddressVector& av) {
  auto handle = impl_->create_address_handle(av);
  if (!handle) return std::unexpected(handle.error());
  return AddressHandle(std::move(*handle));
}

uint32_t AddressHandle::id() const { return impl_->id; }

}  // namespace uroce
