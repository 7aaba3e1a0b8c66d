// Waits on a pipe of the daemon, as read(2) on the channel's descriptor of kernel verbs waits.
#pragma once

#include <chrono>
#include <mutex>

#include "message/connection.h"

namespace uroce::message {

/// The reason why a wait ended. `lost`: nothing is left to read, and nobody will write.
enum class Wake { readable, timeout, signal, lost };

/// Any thread.
class PipeWait {
 public:
  /// Lets sleep() block on `pipe`. Nobody may then read the pipe without poll(2).
  static void prepare(int pipe);
  /// nanoseconds::max() waits for ever; a signal then ends the wait only when its handler lacks SA_RESTART. A shorter
  /// wait ends with every handled signal, like poll(2).
  Wake sleep(int pipe, std::chrono::nanoseconds timeout);

 private:
  Wake sleep_for_ever(int pipe);

  std::once_flag once_;
  Fd read_end_;  // of a pipe for one copied byte
  Fd write_end_;
};

}  // namespace uroce::message
