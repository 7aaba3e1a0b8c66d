// Protection domains, and the address handles in them. <uroce/verbs.h> tells of ownership, threads and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/types.h>
#include <uroce/verbs/memory.h>

namespace uroce {

namespace client {
class AhImpl;
class PdImpl;
}  // namespace client

/// Destination of datagrams (ibv_create_ah(3)): a unicast peer or a multicast group. Send requests of queue pairs in
/// its domain name it by its id. Destroying it ends the id at once; keep it until the sends that name it have
/// completed.
class UROCE_API AddressHandle {
 public:
  AddressHandle(AddressHandle&&) noexcept = default;
  AddressHandle& operator=(AddressHandle&&) noexcept = default;

  uint32_t id() const;  ///< for SendRequest::ah

 private:
  friend class ProtectionDomain;
  explicit AddressHandle(std::shared_ptr<client::AhImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::AhImpl> impl_;
};

/// A protection domain (ibv_alloc_pd(3)).
class UROCE_API ProtectionDomain {
 public:
  ProtectionDomain(ProtectionDomain&&) noexcept = default;
  ProtectionDomain& operator=(ProtectionDomain&&) noexcept = default;

  /// Registers [address, address + length) for local reads and the rights in `access`. `length` is in bytes. Work
  /// requests and peers name the memory by the addresses of this process, or from 0 with Access::zero_based. Errors:
  /// EINVAL (length wraps; remote write or atomic without local write), EOPNOTSUPP (Access::flush_persistent), ENOMEM
  /// (the device's max_mr). A region of 0 bytes has keys, and only messages of 0 bytes can use them.
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access);
  /// The same, but work requests and peers use `iova` as the address of the first byte (ibv_reg_mr_iova(3)).
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access, uint64_t iova);
  /// Registers [offset, offset + length) of device memory (ibv_reg_dm_mr(3)). Work requests and peers name it from 0 at
  /// `offset`, whether or not `access` has Access::zero_based. Errors: as register_memory(); EINVAL (beyond the end of
  /// `memory`, or memory of another context).
  Result<MemoryRegion> register_device_memory(const DeviceMemory& memory, std::size_t offset, std::size_t length,
                                              AccessFlags access);
  /// Registers [offset, offset + length) of the dma-buf `fd` (ibv_reg_dmabuf_mr(3)), which may be closed afterwards.
  /// Work requests and peers use `iova` as the address of the first byte; both have the same last 12 bits. The region
  /// has no address(). The device reads and writes the buffer with the processor: DMA_BUF_IOCTL_SYNC, where the
  /// exporter needs it, is the program's. Errors: as register_memory(); EINVAL (no dma-buf, beyond its end), EBADF,
  /// EOPNOTSUPP (a dma-buf that programs cannot map), EACCES (an exporter that others would wait for, where the program
  /// is not privileged).
  Result<MemoryRegion> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t iova, AccessFlags access);
  /// A region without memory (ibv_alloc_null_mr(3)), for scatter/gather entries of any address and length: gathering
  /// reads zeros, and what is scattered to it is dropped. Peers cannot use it; its rkey() is 0. Errors: ENOMEM
  /// (max_mr).
  Result<MemoryRegion> create_null_region();
  /// A memory window that is not bound yet. Errors: EINVAL (no such type), ENOMEM (max_mr).
  Result<MemoryWindow> create_memory_window(WindowType type);
  /// An address handle. Resolves the Ethernet address of a unicast `av.dgid` first; that of a group follows from its
  /// GID. Errors: EINVAL (sgid_index, dgid or flow_label; mixed address families), EHOSTUNREACH (no answer within 3 s),
  /// ENETUNREACH (no route), ENOMEM (max_ah).
  Result<AddressHandle> create_address_handle(const AddressVector& av);

 private:
  friend class Context;
  friend class MemoryRegion;
  explicit ProtectionDomain(std::shared_ptr<client::PdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::PdImpl> impl_;
};

}  // namespace uroce
