// Whether the daemon behind an object still runs. Nothing sends a signal when it dies: its socket and pipes only end.
#pragma once

#include <atomic>

namespace uroce::client {

/// Any thread.
class Liveness {
 public:
  /// Asks the kernel, one system call, until the answer is yes. The socket must outlive this.
  bool lost();
  /// The answer of the last lost(), or true after mark_lost(). No system call.
  bool known_lost() const { return lost_.load(std::memory_order_relaxed); }
  void mark_lost() { lost_.store(true, std::memory_order_relaxed); }

 protected:
  explicit Liveness(int socket) : socket_(socket) {}
  ~Liveness() = default;

 private:
  int socket_;
  std::atomic<bool> lost_{false};
};

}  // namespace uroce::client
