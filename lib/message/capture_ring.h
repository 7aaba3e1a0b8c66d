// Captured frames in memory that the daemon shares with whoever looks: one ring per engine, one writer, one reader. The
// daemon never waits for its reader: a frame that finds no room is counted and left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce::message {

/// First in each ring. Both count bytes since the beginning; the reader's is believed by nobody but bounded.
struct CaptureRing {
  std::atomic<uint64_t> written;           ///< the daemon's
  std::atomic<uint64_t> dropped;           ///< frames; the daemon's
  alignas(64) std::atomic<uint64_t> read;  ///< the reader's
};
static_assert(sizeof(CaptureRing) == 128 && std::atomic<uint64_t>::is_always_lock_free);

/// Bytes before the records of a ring, and of its records: a power of two.
inline constexpr std::size_t kCaptureHeader = 4096;
inline constexpr std::size_t kCaptureBytes = std::size_t{1} << 24;
inline constexpr std::size_t kCaptureStride = kCaptureHeader + kCaptureBytes;

/// In front of each frame; records begin at multiples of 8 and never wrap. A record of length kCaptureSkip fills what
/// is left before the end.
struct CaptureRecord {
  uint64_t time_ns;   ///< of the daemon's clock, see CaptureReply
  uint32_t length;    ///< of the frame, bytes
  uint32_t outbound;  ///< 0 or 1
};
static_assert(sizeof(CaptureRecord) == 16);
inline constexpr uint32_t kCaptureSkip = UINT32_MAX;
/// Longer frames do not exist.
inline constexpr uint32_t kCaptureLongest = 16384;

/// Of a frame in the ring, its record included.
constexpr uint64_t capture_record_bytes(uint32_t length) {
  return (sizeof(CaptureRecord) + uint64_t{length} + 7) & ~uint64_t{7};
}

}  // namespace uroce::message
