// A capture of one device: shared memory with a ring per engine, and the taps that fill it.
#pragma once

#include <memory>
#include <vector>

#include <uroce/error.h>

#include "message/connection.h"
#include "pmd_glue/frame_tap.h"
#include "pmd_glue/worker.h"
#include "service/capture.h"

namespace uroce::glue {

class Capture final : public service::Capture {
 public:
  /// Copies what `port` sends and receives from now on. `workers` outlive this. Errors: ENOMEM, EBUSY (another capture
  /// of the device is running), ETIMEDOUT (an engine does not answer).
  static Result<std::unique_ptr<Capture>> start(const Port& port, std::span<const std::unique_ptr<Worker>> workers);
  /// Waits at most 5 s until no engine uses the memory. Memory that one still uses then is never freed.
  ~Capture() override;
  int fd() const override { return fd_.get(); }
  uint32_t rings() const override { return static_cast<uint32_t>(queues_.size()); }
  uint64_t epoch_ns() const override { return epoch_ns_; }

 private:
  struct Tapped {
    Worker* worker;
    PortQueue* queue;
    std::unique_ptr<FrameTap> tap;
  };
  Capture() = default;
  static std::unexpected<Error> busy(const Port& port);
  static bool wait_for(const Tapped& one, const FrameTap* tap);

  message::Fd fd_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  uint64_t epoch_ns_ = 0;
  std::vector<Tapped> queues_;
};

}  // namespace uroce::glue
