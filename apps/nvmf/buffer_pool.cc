#include "nvmf/buffer_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

Result<BufferPool> BufferPool::make(uint32_t count) {
  const std::size_t bytes = std::size_t{count} * kTransferBytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ENOMEM, "no memory for " + std::to_string(count) + " buffers of " + std::to_string(kTransferBytes) +
                            " bytes; lower --buffers: " + std::strerror(errno));
  }
  BufferPool pool({static_cast<std::byte*>(memory), bytes});
  pool.free_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) pool.free_.push_back(pool.memory_.data() + std::size_t{i} * kTransferBytes);
  return pool;
}

BufferPool::BufferPool(BufferPool&& other) noexcept
    : memory_(std::exchange(other.memory_, {})), free_(std::move(other.free_)) {}

BufferPool::~BufferPool() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

std::byte* BufferPool::take() {
  if (free_.empty() || first_ != nullptr) return nullptr;
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void BufferPool::give(std::byte* buffer) {
  if (first_ == nullptr) return free_.push_back(buffer);
  Waiter& waiter = *first_;
  first_ = waiter.next_waiter;
  waiter.buffer_ready(buffer);
}

void BufferPool::wait(Waiter& waiter) {
  waiter.next_waiter = nullptr;
  (first_ == nullptr ? first_ : last_->next_waiter) = &waiter;
  last_ = &waiter;
}

void BufferPool::forget(Waiter& waiter) {
  Waiter* before = nullptr;
  for (Waiter* one = first_; one != nullptr; before = one, one = one->next_waiter) {
    if (one != &waiter) continue;
    (before == nullptr ? first_ : before->next_waiter) = one->next_waiter;
    if (last_ == one) last_ = before;
    return;
  }
}

}  // namespace uroce::nvmf
