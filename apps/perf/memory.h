// The memory that a test registers: zeroed pages, hugepages if the kernel has any.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <uroce/error.h>

namespace uroce::perf {

class Buffer {
 public:
  /// Errors: ENOMEM, also for more than half of the machine's memory, or than control groups leave.
  static Result<Buffer> allocate(std::size_t bytes);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  Buffer(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace uroce::perf
