// Buffers for data between the network and the backends, each of kTransferBytes. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/error.h>

namespace uroce::nvmf {

class BufferPool {
 public:
  /// Waits for a buffer, in the pool's list.
  struct Waiter {
    virtual void buffer_ready(std::byte* buffer) = 0;
    Waiter* next_waiter = nullptr;

   protected:
    ~Waiter() = default;
  };

  /// Errors: ENOMEM.
  static Result<BufferPool> make(uint32_t count);
  BufferPool(BufferPool&& other) noexcept;
  BufferPool& operator=(BufferPool&&) = delete;
  ~BufferPool();

  /// All buffers, to be registered with devices. Page aligned.
  std::span<std::byte> memory() const { return memory_; }
  std::size_t free() const { return free_.size(); }

  /// A buffer, or null when all are in use or others wait.
  std::byte* take();
  /// Gives a buffer back, or on to the first that waits.
  void give(std::byte* buffer);
  /// buffer_ready() comes from a later give().
  void wait(Waiter& waiter);
  void forget(Waiter& waiter);

 private:
  explicit BufferPool(std::span<std::byte> memory) : memory_(memory) {}

  std::span<std::byte> memory_;
  std::vector<std::byte*> free_;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace uroce::nvmf
