// Starts I/O commands on the backends: one operation for each, or, for Dataset Management, one for each range.
#pragma once

#include <cstdint>

#include "nvmf/io.h"
#include "nvmf/io_command.h"
#include "nvmf/nvme.h"

namespace uroce::nvmf {

class IoRing;

/// An I/O command with its running operation.
struct IoWork : Io {
  IoPlan plan{};
  uint32_t data_bytes = 0;  ///< that move between host and target
  uint32_t range = 0;       ///< of Dataset Management: the next one
};

/// Runs the I/O commands of a queue. The queue is the client of the operations: it hands each end to ended(), and
/// begins the next range.
class IoRunner {
 public:
  explicit IoRunner(IoRing& ring) : ring_(ring) {}

  /// Begins a command of one operation, with its plan and data. done() may come before it returns.
  void start(IoWork& work);
  /// Prepares Dataset Management. False when a range is not inside the namespace.
  bool start_ranges(IoWork& work);
  /// Begins the operation on the next range that has blocks, as start() does. False when there is no such range: the
  /// command has ended.
  bool next_range(IoWork& work);

  /// An operation has ended.
  void ended() { --operations_; }
  static nvme::Status status_of(const IoWork& work, int error);
  /// No backend works on an operation of the queue.
  bool idle() const { return operations_ == 0; }

 private:
  void submit(IoWork& work);

  IoRing& ring_;
  uint32_t operations_ = 0;  ///< that a backend works on
};

}  // namespace uroce::nvmf
