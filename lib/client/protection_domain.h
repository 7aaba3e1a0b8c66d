// Behind the handles of protection domains, and of the address handles in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <uroce/error.h>
#include <uroce/types.h>

#include "client/object.h"

namespace uroce::client {

class ContextImpl;
class MrImpl;
class MwImpl;

class AhImpl {
 public:
  Object object{};
  uint32_t id = 0;  ///< the number in work requests
};

class PdImpl {
 public:
  explicit PdImpl(const ContextImpl& context) : owner(&context) {}
  virtual ~PdImpl() = default;
  /// `base` is the address of the first byte in work requests.
  virtual Result<std::shared_ptr<MrImpl>> register_memory(void* address, std::size_t length, uint64_t base,
                                                          AccessFlags access) = 0;
  /// Changes `mr`, which is of the same context, to this range, access and domain. Its keys stay the same.
  virtual Result<void> reregister(MrImpl& mr, void* address, std::size_t length, uint64_t base, AccessFlags access) = 0;
  /// [offset, offset + length) of the dma-buf `fd`. The descriptor stays the caller's.
  virtual Result<std::shared_ptr<MrImpl>> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t base,
                                                          AccessFlags access) = 0;
  virtual Result<std::shared_ptr<MrImpl>> create_null_region() = 0;
  virtual Result<std::shared_ptr<MwImpl>> create_window(WindowType type) = 0;
  virtual Result<std::shared_ptr<AhImpl>> create_address_handle(const AddressVector& av) = 0;

  const ContextImpl* owner;  ///< compared, never dereferenced
};

}  // namespace uroce::client
