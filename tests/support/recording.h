// An engine's recording in a test, and its replay.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "record/recorder.h"
#include "record/replayer.h"

namespace uroce::test {

class Recording {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  /// Does the environment (UROCE_TEST_RECORD) ask that each engine of a TestEndpoint is recorded, and the recording
  /// replayed at its end? With the value "only" it is not replayed.
  static bool wanted();

  explicit Recording(std::size_t bytes = kBytes);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Where wanted() is true, the program ends here unless the replay does all as the engine did.
  ~Recording();

  transport::Tape* tape() { return recorder_.get(); }
  const record::Recorder& recorder() const { return *recorder_; }
  std::span<const std::byte> records() const {
    return {memory_.data() + sizeof(record::FileHead), static_cast<std::size_t>(recorder_->used())};
  }
  record::Report replay() const { return record::Replayer(records()).run(); }

 private:
  std::span<std::byte> memory_;
  std::unique_ptr<record::Recorder> recorder_;
};

}  // namespace uroce::test
