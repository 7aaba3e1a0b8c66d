// Memory that interop_peer registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <infiniband/verbs.h>

namespace interop {

class Memory {
 public:
  virtual ~Memory() = default;
  /// Where the test reads and writes it.
  virtual std::span<std::uint8_t> bytes() = 0;
  /// Null with errno, as the verb.
  virtual ibv_mr* register_in(ibv_pd* pd, int access) = 0;
};

/// Memory of a kind: "heap", the program's own; or a part of a dma-buf, whose region has the addresses of bytes():
/// "udmabuf", of a memfd, through which the bytes are seen, or "dma_heap", of the kernel. Throws std::runtime_error.
std::unique_ptr<Memory> make_memory(const std::string& kind, std::size_t length);

}  // namespace interop
