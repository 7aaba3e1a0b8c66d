// Holds all programs' threads between two requests, so that what the programs have stays as it is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "message/connection.h"

namespace uroce::service {

/// Any thread.
class Gate {
 public:
  enum class State : uint8_t {
    open,
    closed,
    left,  ///< another daemon serves the programs: their threads end without ending the connections
  };

  Gate();
  /// Readable while the gate is not open.
  int fd() const { return bell_.get(); }
  void close();
  void open();
  void leave();
  /// A program's thread, between two requests: waits while the gate is closed. False: it is to end.
  bool pass();
  /// Waits until so many threads wait. False on timeout.
  bool holds(std::size_t threads, std::chrono::milliseconds patience);

 private:
  void change(State state);

  message::Fd bell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::open;
  std::size_t waiting_ = 0;
};

}  // namespace uroce::service
