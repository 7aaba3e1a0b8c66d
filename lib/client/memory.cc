#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/vfs.h>

#include <uroce/verbs/memory.h>
#include <uroce/verbs/protection_domain.h>

#include "client/context_interface.h"
#include "client/memory.h"
#include "client/protection_domain.h"

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
  (*region)->pd = impl_;
  (*region)->access = access;
  return MemoryRegion(std::move(*region));
}

Result<MemoryRegion> ProtectionDomain::register_device_memory(const DeviceMemory& memory, std::size_t offset,
                                                              std::size_t length, AccessFlags access) {
  const client::DmImpl& dm = *memory.impl_;
  if (dm.owner() != impl_->owner)
    return fail(EINVAL, "the device memory belongs to another context; create all objects from one Context");
  if (auto inside = dm.check_range(offset, length); !inside) return std::unexpected(inside.error());
  auto region = register_memory(dm.data() + offset, length, access.without(Access::zero_based), 0);
  if (region) region->impl_->device_memory = memory.impl_;
  return region;
}

Result<MemoryRegion> ProtectionDomain::register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t iova,
                                                       AccessFlags access) {
  constexpr uint64_t kPage = 4096;
  if (offset % kPage != iova % kPage) {
    return fail(EINVAL, fmt::format("cannot register a dma-buf: offset {:#x} and iova {:#x} differ within their page; "
                                    "give both the same last 12 bits",
                                    offset, iova));
  }
  if (length == 0 || length > UINT64_MAX - offset) {
    return fail(EINVAL, fmt::format("cannot register {} bytes from {} of a dma-buf; name 1 byte at least, within the "
                                    "buffer",
                                    length, offset));
  }
  struct statfs system{};
  if (fstatfs(fd, &system) != 0) {
    const int code = errno;
    return fail(code, fmt::format("cannot register a dma-buf: descriptor {}: {}", fd, std::strerror(code)));
  }
  if (constexpr long kDmabufMagic = 0x444d4142; system.f_type != kDmabufMagic) {
    return fail(EINVAL, fmt::format("descriptor {} is no dma-buf; register other memory by its address", fd));
  }
  auto region = impl_->register_dmabuf(fd, offset, length, iova, access.without(Access::zero_based));
  if (!region) return std::unexpected(region.error());
  (*region)->pd = impl_;
  (*region)->access = access;
  (*region)->base = iova;
  (*region)->length = length;
  (*region)->fixed = true;
  return MemoryRegion(std::move(*region));
}

Result<MemoryRegion> ProtectionDomain::create_null_region() {
  auto region = impl_->create_null_region();
  if (!region) return std::unexpected(region.error());
  (*region)->pd = impl_;
  (*region)->access = Access::local_write;
  (*region)->length = SIZE_MAX;
  (*region)->local = true;
  (*region)->fixed = true;
  return MemoryRegion(std::move(*region));
}

Result<void> MemoryRegion::reregister(const ProtectionDomain* pd, void* address, std::size_t length,
                                      const AccessFlags* access) {
  if (impl_->fixed) {
    return fail(EINVAL, "a region of a dma-buf, or of no memory, cannot be changed; register another instead");
  }
  const std::shared_ptr<client::PdImpl> domain = pd != nullptr ? pd->impl_ : impl_->pd;
  if (domain->owner != impl_->pd->owner) {
    return fail(EINVAL, "the protection domain belongs to another context; create all objects from one Context");
  }
  const AccessFlags flags = access != nullptr ? *access : impl_->access;
  const bool moves = address != nullptr;
  void* const first = moves ? address : impl_->address;
  const std::size_t bytes = moves ? length : impl_->length;
  uint64_t base = impl_->base;
  if (moves) base = flags.has(Access::zero_based) ? 0 : reinterpret_cast<uint64_t>(address);
  if (auto changed = domain->reregister(*impl_, first, bytes, base, flags); !changed) return changed;
  if (moves) impl_->device_memory.reset();
  impl_->pd = domain;
  impl_->access = flags;
  impl_->address = first;
  impl_->length = bytes;
  impl_->base = base;
  return {};
}

Result<MemoryWindow> ProtectionDomain::create_memory_window(WindowType type) {
  auto window = impl_->create_window(type);
  if (!window) return std::unexpected(window.error());
  return MemoryWindow(std::move(*window));
}

WindowType MemoryWindow::type() const { return impl_->type; }
uint32_t MemoryWindow::rkey() const { return impl_->key; }

uint32_t MemoryRegion::lkey() const { return impl_->key; }
uint32_t MemoryRegion::rkey() const { return impl_->local ? 0 : impl_->key; }
void* MemoryRegion::address() const { return impl_->address; }
std::size_t MemoryRegion::length() const { return impl_->length; }
Result<uint32_t> MemoryRegion::windows() const { return impl_->windows(); }
Sge MemoryRegion::sge(std::size_t offset, uint32_t length) const { return {impl_->base + offset, length, lkey()}; }

}  // namespace uroce
