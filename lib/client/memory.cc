#include "client/impl.h"

namespace uroce {

Result<MemoryRegion> ProtectionDomain::register_memory(void* address, std::size_t length, AccessFlags access) {
  // Zero-based: work requests and peers count from 0 (IBTA vol. 1, 10.6.3.4).
  const uint64_t base = access.has(Access::zero_based) ? 0 : reinterpret_cast<uint64_t>(address);
  auto region =
      impl_->pd->session()->register_memory(impl_->pd, base, length, static_cast<std::byte*>(address), access);
  if (!region) return std::unexpected(region.error());
  return MemoryRegion(std::make_shared<client::MrImpl>(std::move(*region)));
}

uint32_t MemoryRegion::lkey() const { return impl_->region->key(); }
uint32_t MemoryRegion::rkey() const { return impl_->region->key(); }
void* MemoryRegion::address() const { return impl_->region->spec().host; }
std::size_t MemoryRegion::length() const { return impl_->region->spec().length; }

Sge MemoryRegion::sge(std::size_t offset, uint32_t length) const {
  return {impl_->region->spec().address + offset, length, lkey()};
}

}  // namespace uroce
