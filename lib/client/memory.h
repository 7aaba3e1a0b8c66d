// Behind the handles of memory: regions, device memory and windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <uroce/error.h>
#include <uroce/types.h>

#include "client/object.h"

namespace uroce::client {

class ContextImpl;
class DmImpl;
class PdImpl;

class MrImpl {
 public:
  std::shared_ptr<PdImpl> pd{};
  std::shared_ptr<DmImpl> device_memory{};  ///< of a region of it
  Object range{};                           ///< keeps the memory shared
  Object object{};
  AccessFlags access{};
  uint32_t key = 0;
  bool local = false;  ///< peers cannot use the key
  bool fixed = false;  ///< memory without an address, which cannot become other memory
  uint64_t base = 0;   ///< address of the first byte in work requests
  void* address = nullptr;
  std::size_t length = 0;
  std::function<Result<uint32_t>()> windows{};
};

/// A memfd of fixed size, and its mapping. A region of it is passed to the daemon by its descriptor, which lib/sharing
/// finds among the open ones.
class DmImpl {
 public:
  /// Errors: EINVAL, ENOMEM, EMFILE.
  static Result<std::shared_ptr<DmImpl>> make(std::shared_ptr<ContextImpl> context, std::size_t length);
  ~DmImpl();
  DmImpl(const DmImpl&) = delete;
  DmImpl& operator=(const DmImpl&) = delete;

  std::size_t length() const { return length_; }
  std::byte* data() const { return data_; }
  /// Errors: EINVAL (`bytes` from `offset` are beyond the end).
  Result<void> check_range(std::size_t offset, std::size_t bytes) const;
  const ContextImpl* owner() const { return context_.get(); }

 private:
  DmImpl(std::shared_ptr<ContextImpl> context, std::size_t length) : context_(std::move(context)), length_(length) {}
  Result<void> map();

  std::shared_ptr<ContextImpl> context_;
  std::size_t length_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
};

class MwImpl {
 public:
  Object object{};
  uint32_t key = 0;
  WindowType type{};
};

}  // namespace uroce::client
