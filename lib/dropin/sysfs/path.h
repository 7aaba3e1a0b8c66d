// The paths that the redirector changes.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace uroce::dropin {

/// `path`, or its counterpart in the tree that UROCE_SYSFS names: /sys/class/infiniband, its siblings
/// (infiniband_verbs, ...), /dev/infiniband, and what lies below them. Allocates nothing: open(2) calls it in any
/// thread and in signal handlers.
class RedirectedPath {
 public:
  explicit RedirectedPath(const char* path);
  const char* c_str() const { return path_; }
  /// Whether the path names a device, below /dev/infiniband. In the tree it is a symbolic link.
  bool is_device() const { return is_device_; }
  /// Whether it names a counter of a port, whose file may be old.
  bool is_counter() const { return is_counter_; }

 private:
  const char* path_;
  bool is_device_ = false, is_counter_ = false;
  std::array<char, 4096> buffer_;  // not cleared: most paths never use it
};

/// The part of `path` that follows the tree's name where it is to be redirected, else empty: "/class/infiniband" of
/// "/sys/class/infiniband", and "/dev/infiniband". Repeated slashes count as one.
std::string_view redirected_part(std::string_view path);

/// The reverse, in place, for calls that return paths: a path in the tree gets the name that programs know. Returns
/// `path`.
char* restore_path(char* path);

}  // namespace uroce::dropin
