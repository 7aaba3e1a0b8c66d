// Registered memory of an rsocket.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace uroce::dropin::rsocket {

/// Registered memory on pages of its own, so that ibv_fork_init() keeps no other data out of a child.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { reset(); }

  /// 0, or -1 with errno.
  int make(ibv_pd* pd, std::size_t bytes, int access);
  void reset();

  std::byte* data() const { return data_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

}  // namespace uroce::dropin::rsocket
