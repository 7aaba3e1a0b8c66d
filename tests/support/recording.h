// An engine's recording in a test, and its replay.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "record/recorder.h"
#include "record/replayer.h"

namespace uroce::test {

class Recording {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  /// Does the environment (UROCE_TEST_RECORD) ask that each engine of a TestEndpoint is recorded, and the recording
  /// replayed at its end? With the value "only" it is not replayed.
  static bool wanted();

  /// `part_bytes`: a keyframe begins so often; 0: as UROCE_TEST_RECORD_PART says, or else in four parts.
  explicit Recording(std::size_t bytes = kBytes, std::size_t part_bytes = 0);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Where wanted() is true, the program ends here unless the replay does all as the engine did.
  ~Recording();

  transport::Tape* tape() { return recorder_.get(); }
  const record::Recorder& recorder() const { return *recorder_; }
  record::Collected collected() const { return *record::collect(memory_); }
  std::vector<std::byte> records() const { return collected().records; }
  record::Report replay() const;
  /// A replay from each keyframe to the second one behind it. The first that diverges, or the last.
  record::Report replay_pieces() const;

 private:
  std::span<std::byte> memory_;
  std::unique_ptr<record::Recorder> recorder_;
};

}  // namespace uroce::test
