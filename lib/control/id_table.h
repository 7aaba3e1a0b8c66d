// Small numbers for objects: handed out under the control lock, looked up by engines without one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace uroce::control {

template <class T>
class IdTable {
 public:
  /// Ids 1..capacity.
  explicit IdTable(uint32_t capacity)
      : capacity_(capacity), objects_(std::make_unique<std::atomic<T*>[]>(std::size_t{capacity} + 1)) {}

  /// The id that has been free the longest; nullopt when all are in use.
  std::optional<uint32_t> take() {
    if (fresh_ <= capacity_) return fresh_++;
    if (free_.empty()) return std::nullopt;
    const uint32_t id = free_.front();
    free_.pop_front();
    return id;
  }
  /// Takes this one. False: it is in use, or out of range. Slow when other numbers were given back before.
  bool take(uint32_t id) {
    if (id < 1 || id > capacity_) return false;
    for (; fresh_ <= id; ++fresh_) free_.push_back(fresh_);
    const auto found = std::ranges::find(free_, id);
    if (found == free_.end()) return false;
    free_.erase(found);
    return true;
  }
  void set(uint32_t id, T* object) { objects_[id].store(object, std::memory_order_release); }
  /// No engine may be using the object.
  void give_back(uint32_t id) {
    set(id, nullptr);
    free_.push_back(id);
  }
  /// Any thread. nullptr when there is none.
  T* find(uint32_t id) const {
    return id >= 1 && id <= capacity_ ? objects_[id].load(std::memory_order_acquire) : nullptr;
  }

 private:
  uint32_t capacity_;
  uint32_t fresh_ = 1;
  std::deque<uint32_t> free_;
  std::unique_ptr<std::atomic<T*>[]> objects_;
};

}  // namespace uroce::control
