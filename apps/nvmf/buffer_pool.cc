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
  pool.free_count_ = count;
  pool.for_newcomers_ = count / 16;
  for (uint32_t i = 0; i < count; ++i) pool.free_.push_back(pool.memory_.data() + std::size_t{i} * kTransferBytes);
  return pool;
}

BufferPool::BufferPool(BufferPool&& other) noexcept
    : memory_(std::exchange(other.memory_, {})),
      free_(std::move(other.free_)),
      free_count_(other.free_count_),
      for_newcomers_(other.for_newcomers_) {}

BufferPool::~BufferPool() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

BufferPool::Share& BufferPool::open(std::string_view host) {
  auto found = shares_.find(host);
  if (found == shares_.end()) found = shares_.try_emplace(std::string(host)).first;
  ++found->second.users_;
  return found->second;
}

void BufferPool::close(Share& share) {
  if (--share.users_ > 0) return;
  std::erase_if(shares_, [&](const auto& one) { return &one.second == &share; });
}

/// Serves those that wait in turns, until there is nobody who may take. One that gets a buffer may give others back,
/// and so come here again.
void BufferPool::serve() {
  passed_over_ = 0;
  if (std::exchange(serving_, true)) return;
  while (passed_over_ < waiting_) {
    Share& share = *first_;
    remove(share);
    if (!may_take(share)) {
      append(share);
      ++passed_over_;
      continue;
    }
    passed_over_ = 0;
    Waiter& waiter = *share.first_;
    share.first_ = waiter.next_waiter;
    if (share.first_ != nullptr) append(share);
    waiter.buffer_ready(pop(share));
  }
  serving_ = false;
}

void BufferPool::wait(Share& share, Waiter& waiter) {
  waiter.next_waiter = nullptr;
  if (share.first_ == nullptr) append(share);
  (share.first_ == nullptr ? share.first_ : share.last_->next_waiter) = &waiter;
  share.last_ = &waiter;
}

void BufferPool::forget(Share& share, Waiter& waiter) {
  Waiter* before = nullptr;
  for (Waiter* one = share.first_; one != nullptr; before = one, one = one->next_waiter) {
    if (one != &waiter) continue;
    (before == nullptr ? share.first_ : before->next_waiter) = one->next_waiter;
    if (share.last_ == one) share.last_ = before;
    if (share.first_ == nullptr) remove(share);
    return;
  }
}

void BufferPool::append(Share& share) {
  share.next_waiting_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_waiting_) = &share;
  last_ = &share;
  ++waiting_;
}

void BufferPool::remove(Share& share) {
  Share* before = nullptr;
  for (Share* one = first_; one != &share; one = one->next_waiting_) before = one;
  (before == nullptr ? first_ : before->next_waiting_) = share.next_waiting_;
  if (last_ == &share) last_ = before;
  --waiting_;
}

}  // namespace uroce::nvmf
