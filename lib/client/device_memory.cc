// Device memory: memory of the library's own, at the end of calls.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uroce/verbs/context.h>
#include <uroce/verbs/memory.h>

#include "base/no_cancel.h"
#include "client/context_interface.h"
#include "client/memory.h"

namespace uroce {

namespace client {
namespace {

std::unexpected<Error> system_error(const char* what, std::size_t length) {
  const int code = errno;
  return fail(code, fmt::format("cannot allocate {} bytes of device memory: {}: {}", length, what, strerror(code)));
}

}  // namespace

Result<std::shared_ptr<DmImpl>> DmImpl::make(std::shared_ptr<ContextImpl> context, std::size_t length) {
  const uint64_t most = context->info().max_device_memory;
  if (length == 0) return fail(EINVAL, "cannot allocate device memory of 0 bytes; ask for 1 at least");
  if (length > most) {
    return fail(ENOMEM, fmt::format("cannot allocate {} bytes of device memory; {} has {}", length,
                                    context->info().name, most));
  }
  const uint64_t before = context->device_memory.fetch_add(length);
  std::shared_ptr<DmImpl> memory(new DmImpl(std::move(context), length));  // gives the bytes back
  if (before > most - length) {
    return fail(ENOMEM, fmt::format("cannot allocate {} bytes of device memory: {} of {} are in use; free some", length,
                                    before, most));
  }
  if (auto mapped = memory->map(); !mapped) return std::unexpected(mapped.error());
  return memory;
}

Result<void> DmImpl::map() {
  const NoCancel guard;
  fd_ = memfd_create("uroce device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) return system_error("memfd_create", length_);
  if (ftruncate(fd_, static_cast<off_t>(length_)) != 0) return system_error("ftruncate", length_);
  // The daemon then knows that the file cannot shrink under its mapping.
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return system_error("seal", length_);
  void* const mapped = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) return system_error("mmap", length_);
  data_ = static_cast<std::byte*>(mapped);
  return {};
}

DmImpl::~DmImpl() {
  const NoCancel guard;
  if (data_ != nullptr) munmap(data_, length_);
  if (fd_ >= 0) close(fd_);
  context_->device_memory.fetch_sub(length_);
}

Result<void> DmImpl::check_range(std::size_t offset, std::size_t bytes) const {
  if (offset <= length_ && bytes <= length_ - offset) return {};
  return fail(EINVAL,
              fmt::format("{} bytes from {} reach beyond the {} bytes of the device memory", bytes, offset, length_));
}

}  // namespace client

Result<DeviceMemory> Context::allocate_device_memory(std::size_t length) {
  auto memory = client::DmImpl::make(impl_, length);
  if (!memory) return std::unexpected(memory.error());
  return DeviceMemory(std::move(*memory));
}

std::size_t DeviceMemory::length() const { return impl_->length(); }

Result<void> DeviceMemory::copy_to(std::size_t offset, std::span<const std::byte> from) {
  if (auto inside = impl_->check_range(offset, from.size()); !inside) return inside;
  if (!from.empty()) std::memcpy(impl_->data() + offset, from.data(), from.size());
  return {};
}

Result<void> DeviceMemory::copy_from(std::size_t offset, std::span<std::byte> to) const {
  if (auto inside = impl_->check_range(offset, to.size()); !inside) return inside;
  if (!to.empty()) std::memcpy(to.data(), impl_->data() + offset, to.size());
  return {};
}

}  // namespace uroce
