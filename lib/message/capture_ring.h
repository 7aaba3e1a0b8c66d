// Captured frames in memory that the daemon shares with a reader: one ring per engine, one writer, one reader. The
// daemon never waits for the reader: it counts and leaves out a frame for which there is no room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::message {

/// The beginning of each ring. `written` and `read` count bytes since the start. The daemon does not trust `read` and
/// bounds its value.
struct CaptureRing {
  std::atomic<uint64_t> written;           ///< the daemon's
  std::atomic<uint64_t> dropped;           ///< frames; the daemon's
  alignas(64) std::atomic<uint64_t> read;  ///< the reader's
};
static_assert(sizeof(CaptureRing) == 128 && std::atomic<uint64_t>::is_always_lock_free);

/// Bytes before the records of a ring, and bytes of its records (a power of two).
inline constexpr std::size_t kCaptureHeader = 4096;
inline constexpr std::size_t kCaptureBytes = std::size_t{1} << 24;
inline constexpr std::size_t kCaptureStride = kCaptureHeader + kCaptureBytes;

/// Stands in front of each frame. Records begin at multiples of 8 and never wrap: one of length kCaptureSkip fills the
/// rest of the ring.
struct CaptureRecord {
  uint64_t time_ns;          ///< of the daemon's clock, see CaptureReply
  uint32_t length;           ///< of the frame, bytes
  uint32_t outbound : 1;     ///< 0 or 1
  uint32_t fault_rule : 31;  ///< that has acted on the frame, which is shown again for it; 0: none
};
static_assert(sizeof(CaptureRecord) == 16);
inline constexpr uint32_t kCaptureSkip = UINT32_MAX;
/// The longest frame, bytes; longer ones are left out.
inline constexpr uint32_t kCaptureLongest = 16384;

/// Bytes of a frame in the ring, with its record.
constexpr uint64_t capture_record_bytes(uint32_t length) {
  return (sizeof(CaptureRecord) + uint64_t{length} + 7) & ~uint64_t{7};
}

}  // namespace uroce::message
