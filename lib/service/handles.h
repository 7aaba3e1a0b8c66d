// A client's numbers for its objects. They are per client: another client's number means nothing here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

namespace uroce::service {

/// Any thread.
template <class T>
class Handles {
 public:
  /// `what`: the kind of object, for error texts. `limit_name`: the setting.
  Handles(const char* what, const char* limit_name) : what_(what), limit_name_(limit_name) {}

  /// Errors: ENOMEM naming the limit.
  Result<void> check_room(uint32_t limit) const {
    const std::scoped_lock lock(mutex_);
    if (objects_.size() < limit) return {};
    return fail(ENOMEM, "this client has " + std::to_string(objects_.size()) + " " + what_ + "s, which is the limit (" +
                            limit_name_ + "); destroy some or raise it");
  }
  uint32_t add(std::shared_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    // After 2^32 objects the numbers begin again; those in use are left out.
    while (next_ == 0 || objects_.contains(next_)) ++next_;
    objects_.emplace(next_, std::move(object));
    return next_++;
  }
  /// Puts another object in the place of an existing one.
  void replace(uint32_t id, std::shared_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    objects_[id].swap(object);
  }
  /// Errors: EINVAL (no such object).
  Result<std::shared_ptr<T>> find(uint32_t id) const {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(id);
    if (found == objects_.end()) return unknown(id);
    return found->second;
  }
  /// Removes the object from the table; the caller destroys it.
  Result<std::shared_ptr<T>> take(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(id);
    if (found == objects_.end()) return unknown(id);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::map<uint32_t, std::shared_ptr<T>> take_all() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(objects_, {});
  }
  /// Up to `most` objects after `id`.
  std::vector<std::pair<uint32_t, std::shared_ptr<T>>> after(uint32_t id, std::size_t most) const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::pair<uint32_t, std::shared_ptr<T>>> found;
    for (auto at = objects_.upper_bound(id); at != objects_.end() && found.size() < most; ++at) found.push_back(*at);
    return found;
  }
  uint32_t size() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<uint32_t>(objects_.size());
  }

 private:
  std::unexpected<Error> unknown(uint32_t id) const {
    return fail(EINVAL, std::string("this client has no ") + what_ + " " + std::to_string(id));
  }

  const char* what_;
  const char* limit_name_;
  mutable std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<T>> objects_;
  uint32_t next_ = 1;
};

}  // namespace uroce::service
