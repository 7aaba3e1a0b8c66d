// The bytes of a namespace: in memory, or in a file or block device through io_uring.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "nvmf/io.h"

namespace uroce::nvmf {

class IoRing;

/// Bytes that are read and written at offsets. Operations at once are in no order. Any number of threads may submit,
/// each with a ring of its own.
class Backend {
 public:
  virtual ~Backend() = default;
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// The smallest unit that it can read and write, bytes.
  uint32_t block_bytes() const { return block_bytes_; }
  virtual void submit(Io& io, IoRing& ring) = 0;
  /// One thread. Takes the size that the file or device has now, and says whether that is another number of blocks. One
  /// that has lost its last block, or cannot tell its size, keeps the one that it had.
  bool look_at_size();

 protected:
  Backend(uint64_t bytes, uint32_t block_bytes) : bytes_(bytes), block_bytes_(block_bytes) {}
  /// Bytes, as of now.
  virtual uint64_t size_now() const { return bytes(); }

 private:
  std::atomic<uint64_t> bytes_;
  uint32_t block_bytes_;
};

/// Memory of this process, zero at first. Operations of several threads on the same bytes at once may leave or see
/// parts of each.
Result<std::unique_ptr<Backend>> make_memory_backend(uint64_t bytes);

/// A regular file or a block device, read and written past the page cache where the file system can. Errors: those of
/// open(2); EBUSY (a block device that is mounted, or in use in another way, also by this program); EINVAL (neither of
/// the two, or empty).
Result<std::unique_ptr<Backend>> open_file_backend(const std::string& path);

}  // namespace uroce::nvmf
