// Holds all programs' threads between two requests, so that what the programs have stays as it is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "message/connection.h"

namespace uroce::service {

/// Any thread.
class Gate {
 public:
  Gate();
  /// Readable while the gate is not open.
  int fd() const { return bell_.get(); }
  void close();
  void open();
  /// A program's thread, between two requests: waits while the gate is closed.
  void pass();
  /// Whether so many threads wait.
  bool holds(std::size_t threads);

 private:
  message::Fd bell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::size_t waiting_ = 0;
};

}  // namespace uroce::service
