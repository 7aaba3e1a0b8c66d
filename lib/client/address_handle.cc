#include <uroce/verbs/protection_domain.h>

#include "client/protection_domain.h"

namespace uroce {

Result<AddressHandle> ProtectionDomain::create_address_handle(const AddressVector& av) {
  auto handle = impl_->create_address_handle(av);
  if (!handle) return std::unexpected(handle.error());
  return AddressHandle(std::move(*handle));
}

uint32_t AddressHandle::id() const { return impl_->id; }

}  // namespace uroce
