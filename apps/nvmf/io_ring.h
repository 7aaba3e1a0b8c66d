// One thread's io_uring(7).
#pragma once

#include <chrono>
#include <cstdint>

#include <liburing.h>

#include <uroce/error.h>

#include "nvmf/io.h"

namespace uroce::nvmf {

/// One thread uses it. Operations beyond the ring's size wait in a list, so submitting never fails.
class IoRing {
 public:
  /// Errors: those of io_uring_setup(2).
  static Result<IoRing> open(uint32_t entries);
  IoRing(IoRing&& other) noexcept;
  IoRing& operator=(IoRing&&) = delete;
  ~IoRing();

  /// Starts the operation on the file `fd`, or for -1 on io.pages. io.client hears of its end from poll().
  void submit(Io& io, int fd);
  /// Hands new operations to the kernel and reports ended ones. True when there was work. Never blocks.
  bool poll();
  /// Cancels all operations, which then end with ECANCELED unless they end by themselves, and starts no others. Waits
  /// for that, for at most about `limit`. False when some have not ended: the kernel may still read and write their
  /// bytes.
  bool drain(std::chrono::milliseconds limit);
  /// Operations that have not ended.
  uint32_t outstanding() const { return outstanding_; }

 private:
  IoRing() = default;
  void wait(Io& io);
  void start(Io& io);
  void finish(Io& io, int result);
  void start_waiting();
  void end(Io& io, int error);
  void cancel();

  io_uring ring_{};
  bool open_ = false;
  bool draining_ = false;
  uint32_t prepared_ = 0;     ///< operations that the kernel does not know yet
  uint32_t outstanding_ = 0;  ///< with those that wait
  uint32_t in_ring_ = 0;      ///< so the completion queue, twice as large, never overflows
  uint32_t entries_ = 0;
  Io* first_waiting_ = nullptr;
  Io* last_waiting_ = nullptr;
};

}  // namespace uroce::nvmf
