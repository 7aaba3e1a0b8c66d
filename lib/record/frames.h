// The frames in records, from Ethernet to ICRC. Zeros stand for payload that was not recorded.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "record/format.h"
#include "record/structures.h"

namespace uroce::record {

/// The frames of a run (record/alike.h), one after the other.
class RunReader {
 public:
  /// Reads what stands behind the record of its first frame, of `kept` bytes. `left`: frames of the record that were
  /// not read, with that one.
  RunReader(const Record& record, Parts& parts, std::size_t kept, uint32_t left);
  /// Has it another frame?
  bool has_more() const { return next_ <= run_.alike; }
  /// The kept bytes of the next one. Throws Stop.
  std::span<const std::byte> next(Parts& parts);
  uint32_t frames() const { return run_.alike + 1u; }

 private:
  RunRecord run_;
  uint32_t next_ = 0;
  std::vector<std::byte> bytes_;
};

struct RecordedFrame {
  std::vector<std::byte> bytes;
  bool in = false;          ///< the engine got it
  bool whole = false;       ///< all of its bytes were recorded
  bool lacks_icrc = false;  ///< it came without; it has one here
};

/// Computes the ICRC of a received frame; `wrong`: another one. Frames that are no RoCE stay as they are.
void set_icrc(std::span<std::byte> frame, bool wrong);
/// A frame that an engine sent, or got from its own thread. `payload`: its beginning, as far as there is one.
std::vector<std::byte> whole_frame(const LocalFrameRecord& record, std::span<const std::byte> header,
                                   std::span<const std::byte> payload);
/// Those of a record, with right ICRCs; none in kinds without. Throws Stop.
std::vector<RecordedFrame> frames_of(const Record& record);
/// The time of a record that has one; `otherwise` of others. Throws Stop.
Nanos time_of(const Record& record, Nanos otherwise);

}  // namespace uroce::record
