// Buffers for data between the network and the backends, each of kTransferBytes. One thread.
//
// Thresholds that follow what is free (Choudhury and Hahne, 1998) leave room for others: a host may hold as many
// buffers as are free, so alone it gets half of them. The last sixteenth is for hosts that hold none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

namespace uroce::nvmf {

class BufferPool {
 public:
  /// Waits for a buffer, in the list of its host.
  struct Waiter {
    virtual void buffer_ready(std::byte* buffer) = 0;
    Waiter* next_waiter = nullptr;

   protected:
    ~Waiter() = default;
  };

  /// The buffers of a host, and its requests that wait for some.
  class Share {
   public:
    std::size_t held() const { return held_; }

   private:
    friend class BufferPool;
    std::size_t held_ = 0;
    uint32_t users_ = 0;
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;
    Share* next_waiting_ = nullptr;
  };

  /// Errors: ENOMEM.
  static Result<BufferPool> make(uint32_t count);
  BufferPool(BufferPool&& other) noexcept;
  BufferPool& operator=(BufferPool&&) = delete;
  ~BufferPool();

  /// All buffers, to be registered with devices. Page aligned.
  std::span<std::byte> memory() const { return memory_; }
  std::size_t free() const { return free_count_; }

  /// The share of a host, by its address: the same for each user, until all have closed it.
  Share& open(std::string_view host);
  /// No buffer of the share may be held by its last user.
  void close(Share& share);

  /// A buffer, or null when the host must wait: others need the rest, or more of its own waits.
  std::byte* take(Share& share) { return share.first_ == nullptr && may_take(share) ? pop(share) : nullptr; }
  /// Gives a buffer of this share back, or on to one that waits.
  void give(Share& share, std::byte* buffer) {
    free_[free_count_++] = buffer;
    --share.held_;
    if (waiting_ > 0) serve();
  }
  /// After take() has given none: buffer_ready() comes from a later give(). Hosts that wait get buffers in turns.
  void wait(Share& share, Waiter& waiter);
  void forget(Share& share, Waiter& waiter);

 private:
  explicit BufferPool(std::span<std::byte> memory) : memory_(memory) {}

  bool may_take(const Share& share) const {
    return free_count_ > (share.held_ == 0 ? 0 : share.held_ + for_newcomers_);
  }
  std::byte* pop(Share& share) {
    ++share.held_;
    return free_[--free_count_];
  }
  void serve();
  void append(Share& share);
  void remove(Share& share);

  std::span<std::byte> memory_;
  std::vector<std::byte*> free_;  ///< the first free_count_
  std::size_t free_count_ = 0;
  std::size_t for_newcomers_ = 0;
  std::map<std::string, Share, std::less<>> shares_{};
  // Shares for which something waits, in the order of their turns.
  Share* first_ = nullptr;
  Share* last_ = nullptr;
  std::size_t waiting_ = 0;
  std::size_t passed_over_ = 0;  ///< of them, in a row
  bool serving_ = false;
};

}  // namespace uroce::nvmf
