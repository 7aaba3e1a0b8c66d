// The memory of queues: one zeroed allocation per object, made with the object; the data path never allocates. With an
// allocator of shared memory, another process reaches the same queues.
#pragma once

#include <cstddef>
#include <memory>

#include <uroce/error.h>

namespace uroce::control {

/// Memory of one object's queues: 64-byte aligned, zeroed when allocated. Freed with this.
class QueueMemory {
 public:
  virtual ~QueueMemory() = default;
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 protected:
  QueueMemory(std::byte* data, std::size_t size) : data_(data), size_(size) {}

 private:
  std::byte* data_;
  std::size_t size_;
};

/// Called without the device's control lock, because zeroing takes a while. Any thread.
class QueueAllocator {
 public:
  virtual ~QueueAllocator() = default;
  /// At least `bytes`, more than 0. Errors: ENOMEM.
  virtual Result<std::unique_ptr<QueueMemory>> allocate(std::size_t bytes) = 0;
};

/// Memory of this process.
class HeapAllocator final : public QueueAllocator {
 public:
  Result<std::unique_ptr<QueueMemory>> allocate(std::size_t bytes) override;
};

}  // namespace uroce::control
