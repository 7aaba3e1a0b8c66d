#include "client/impl.h"

namespace uroce {

Result<MemoryRegion> ProtectionDomain::register_memory(void* address, std::size_t length, AccessFlags access) {
  // Zero-based: work requests and peers count from 0 (IBTA vol. 1, 10.6.3.4).
  return register_memory(address, length, access,
                         access.has(Access::zero_based) ? 0 : reinterpret_cast<uint64_t>(address));
}

Result<MemoryRegion> ProtectionDomain::register_memory(void* address, std::size_t length, AccessFlags access,
                                                       uint64_t iova) {
  auto region = impl_->register_memory(address, length, iova, access);
  if (!region) return std::unexpected(region.error());
  return MemoryRegion(std::move(*region));
}

uint32_t MemoryRegion::lkey() const { return impl_->key; }
uint32_t MemoryRegion::rkey() const { return impl_->key; }
void* MemoryRegion::address() const { return impl_->address; }
std::size_t MemoryRegion::length() const { return impl_->length; }
Sge MemoryRegion::sge(std::size_t offset, uint32_t length) const { return {impl_->base + offset, length, lkey()}; }

}  // namespace uroce
