// Memory that work requests and peers may use: regions, device memory, windows. <uroce/verbs.h> tells of ownership,
// threads and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/types.h>

namespace uroce {

namespace client {
class MrImpl;
class DmImpl;
class MwImpl;
}  // namespace client

class ProtectionDomain;

/// Registered memory (ibv_reg_mr(3)). The caller owns the memory, which must outlive this object. Destroying the object
/// ends the keys at once and returns when no engine reads or writes the memory any more. Work that still names a key
/// completes in error.
class UROCE_API MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&&) noexcept = default;
  MemoryRegion& operator=(MemoryRegion&&) noexcept = default;

  uint32_t lkey() const;  ///< for this side's scatter/gather entries
  uint32_t rkey() const;  ///< for the peer's WRITEs, READs and atomics
  void* address() const;
  std::size_t length() const;  ///< bytes
  /// Changes the region under the same keys (ibv_rereg_mr(3)): its domain to `pd`, its memory to [address, address +
  /// length), its rights to `access`. A null pointer leaves that part as it is. Work that uses the keys meanwhile
  /// fails. Errors: EINVAL and those of ProtectionDomain::register_memory(): nothing has changed; ETIMEDOUT: the keys
  /// have ended.
  Result<void> reregister(const ProtectionDomain* pd, void* address, std::size_t length, const AccessFlags* access);
  /// A scatter/gather entry for the bytes [offset, offset + length) of this region. Not checked here: a work request
  /// that reaches beyond the region completes in error.
  Sge sge(std::size_t offset, uint32_t length) const;
  /// Number of memory windows that are bound to the region now.
  Result<uint32_t> windows() const;

 private:
  friend class ProtectionDomain;
  explicit MemoryRegion(std::shared_ptr<client::MrImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MrImpl> impl_;
};

/// Device memory (ibv_alloc_dm(3)), all zero at first. A device in software has no memory of its own: this is memory of
/// the process that the program reaches through calls alone, as it would on a card, and that costs no moving of pages
/// when it is registered. A child of fork() shares it with its parent. Destroying the object frees the memory once the
/// last region of it is gone.
class UROCE_API DeviceMemory {
 public:
  DeviceMemory(DeviceMemory&&) noexcept = default;
  DeviceMemory& operator=(DeviceMemory&&) noexcept = default;

  std::size_t length() const;  ///< bytes
  /// Copies `from` to [offset, offset + from.size()) (ibv_memcpy_to_dm). Any thread; not ordered with engines that
  /// read or write the same bytes. Errors: EINVAL (beyond the end).
  Result<void> copy_to(std::size_t offset, std::span<const std::byte> from);
  /// Copies [offset, offset + to.size()) to `to` (ibv_memcpy_from_dm). The same holds.
  Result<void> copy_from(std::size_t offset, std::span<std::byte> to) const;

 private:
  friend class Context;
  friend class ProtectionDomain;
  explicit DeviceMemory(std::shared_ptr<client::DmImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::DmImpl> impl_;
};

/// A memory window (ibv_alloc_mw(3); IBTA vol. 1, 10.6.7.2): a key to part of a region. Work requests bind and
/// invalidate it, in the order of the send queue.
///
/// WrOpcode::bind_mw binds it for the requests that are posted after it. A type 1 window may be bound again at any
/// time, which ends its earlier key. A type 2 window serves only the queue pair that bound it. It must be invalidated
/// before it is bound again: by WrOpcode::local_invalidate on that queue pair, which waits until all earlier requests
/// are complete, or by the peer's SEND with invalidate. A bind that is not allowed completes with
/// WcStatus::mw_bind_error, an invalidation that is not allowed with local_qp_operation_error. When the region is
/// destroyed, the window's key is invalid. Destroying the window ends its key at once and returns when no engine uses
/// it any more.
class UROCE_API MemoryWindow {
 public:
  MemoryWindow(MemoryWindow&&) noexcept = default;
  MemoryWindow& operator=(MemoryWindow&&) noexcept = default;

  WindowType type() const;
  /// The rkey as allocated. A bind chooses the low 8 bits; the upper 24 stay.
  uint32_t rkey() const;
  /// The next rkey of the same window (ibv_inc_rkey(3)).
  static constexpr uint32_t next_rkey(uint32_t rkey) { return (rkey & ~0xffu) | ((rkey + 1) & 0xff); }

 private:
  friend class ProtectionDomain;
  explicit MemoryWindow(std::shared_ptr<client::MwImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MwImpl> impl_;
};

}  // namespace uroce
