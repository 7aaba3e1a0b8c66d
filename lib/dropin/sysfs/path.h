// The paths that the redirector changes.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace uroce::dropin {

/// `path`, or its counterpart in the tree that UROCE_SYSFS names when it is /sys/class/infiniband or one of its
/// siblings (infiniband_verbs, ...) or lies below. Allocates nothing: open(2) calls it in any thread and in signal
/// handlers.
class RedirectedPath {
 public:
  explicit RedirectedPath(const char* path);
  const char* c_str() const { return path_; }

 private:
  const char* path_;
  std::array<char, 4096> buffer_;  // not cleared: most paths never use it
};

/// The part of `path` after "/sys" where it is to be redirected, else empty. Repeated slashes count as one.
std::string_view redirected_part(std::string_view path);

}  // namespace uroce::dropin
