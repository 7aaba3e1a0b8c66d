// A client's numbers for its objects, and what each takes of the user's budget. Numbers are per client: another
// client's number means nothing here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "service/user.h"

namespace uroce::service {

/// Any thread.
template <class T>
class Handles {
 public:
  /// `what`: the kind of object, for error texts.
  explicit Handles(const char* what) : what_(what) {}

  /// The number holds `charge` until the object is taken out.
  uint32_t add(std::shared_ptr<T> object, Charge charge) {
    const std::scoped_lock lock(mutex_);
    // After 2^32 objects the numbers begin again; those in use are left out.
    while (next_ == 0 || objects_.contains(next_)) ++next_;
    objects_.emplace(next_, Entry{std::move(object), std::move(charge)});
    return next_++;
  }
  /// Under the number that it had with another daemon. False: it is in use, or 0.
  bool add(uint32_t id, std::shared_ptr<T> object, Charge charge) {
    const std::scoped_lock lock(mutex_);
    if (id == 0 || !objects_.emplace(id, Entry{std::move(object), std::move(charge)}).second) return false;
    next_ = std::max(next_, id + 1);
    return true;
  }
  /// Puts another object in the place of an existing one.
  void replace(uint32_t id, std::shared_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    objects_[id].object.swap(object);
  }
  /// Errors: EINVAL (no such object).
  Result<std::shared_ptr<T>> find(uint32_t id) const {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(id);
    if (found == objects_.end()) return unknown(id);
    return found->second.object;
  }
  /// Removes the object from the table; the caller destroys it.
  Result<std::shared_ptr<T>> take(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(id);
    if (found == objects_.end()) return unknown(id);
    auto object = std::move(found->second.object);
    objects_.erase(found);
    return object;
  }
  /// The objects' name, in the singular.
  const char* kind() const { return what_; }
  /// Destroys all objects.
  void clear() {
    std::unique_lock lock(mutex_);
    const auto gone = std::exchange(objects_, {});
    lock.unlock();
  }
  /// Up to `most` objects after `id`.
  std::vector<std::pair<uint32_t, std::shared_ptr<T>>> after(uint32_t id, std::size_t most) const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::pair<uint32_t, std::shared_ptr<T>>> found;
    for (auto at = objects_.upper_bound(id); at != objects_.end() && found.size() < most; ++at) {
      found.emplace_back(at->first, at->second.object);
    }
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

  struct Entry {
    std::shared_ptr<T> object;
    Charge charge;
  };

  const char* what_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Entry> objects_;
  uint32_t next_ = 1;
};

}  // namespace uroce::service
