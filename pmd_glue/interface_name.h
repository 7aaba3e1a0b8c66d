// The name of the interface under a port. An administrator may change it while the port is in use.
#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace uroce::glue {

/// Any thread reads it, and one changes it.
class InterfaceName {
 public:
  InterfaceName& operator=(std::string name) {
    const std::lock_guard lock(mutex_);
    name_ = std::move(name);
    return *this;
  }
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }
  /// The index that the interface has now; 0: there is none. `attached`: the index of the port's sockets. An interface
  /// that still has that index is the same, whatever its name: the port follows a new one, with a note.
  unsigned look(unsigned attached);

 private:
  mutable std::mutex mutex_;
  std::string name_;
};

}  // namespace uroce::glue
