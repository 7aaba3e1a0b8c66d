// Totals of the machine that all clients share. No client alone sees them, so no limit of one client protects them.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <uroce/error.h>

namespace uroce::service {

/// A part of such a total. It is given back when this ends.
class Share {
 public:
  Share() = default;
  Share(std::atomic<uint64_t>& total, uint64_t amount) : total_(&total), amount_(amount) {}
  Share(Share&& other) noexcept
      : total_(std::exchange(other.total_, nullptr)), amount_(std::exchange(other.amount_, 0)) {}
  Share& operator=(Share&& other) noexcept {
    std::swap(total_, other.total_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  /// Adds another part of the same total.
  void join(Share other) {
    if (total_ == nullptr) std::swap(total_, other.total_);
    amount_ += std::exchange(other.amount_, 0);
  }
  ~Share() {
    if (total_ != nullptr) total_->fetch_sub(amount_, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>* total_ = nullptr;
  uint64_t amount_ = 0;
};

/// The mappings that all clients together may have.
uint64_t most_mappings();
/// `count` of the mappings that the kernel allows this process (vm.max_map_count). A quarter of them stays for the
/// daemon's own: threads, ports, the repair of mappings (FaultWatch). Errors: ENOMEM naming the limit. Any thread.
Result<Share> take_mappings(uint64_t count);

/// `bytes` of holes: parts of registered files without pages. The first access gives them pages at the daemon's
/// expense. All clients together may have an eighth of the memory that the daemon may use. Errors: ENOMEM. Any thread.
Result<Share> take_holes(uint64_t bytes);

}  // namespace uroce::service
