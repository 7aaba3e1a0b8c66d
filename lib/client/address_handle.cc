#include "client/impl.h"

namespace uroce {

Result<AddressHandle> ProtectionDomain::create_address_handle(const AddressVector& av) {
  auto handle = impl_->pd->session()->create_address_handle(impl_->pd, av);
  if (!handle) return std::unexpected(handle.error());
  return AddressHandle(std::make_shared<client::AhImpl>(std::move(*handle)));
}

uint32_t AddressHandle::id() const { return impl_->ah->id(); }

}  // namespace uroce
