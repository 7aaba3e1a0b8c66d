// The unit that an engine's time is charged in. Clients that share an engine get equal parts of it.
//
// The unit is the time for one byte of payload. A frame of its own costs about as much as 2 KiB of payload:
// engine_bench measures both.
#pragma once

#include <cstdint>

namespace uroce::transport::work {

inline constexpr uint32_t kFrame = 2048;     ///< a frame built, or a local operation in its place; its payload is extra
inline constexpr uint32_t kReceived = 1024;  ///< a frame received; its payload is extra
inline constexpr uint32_t kFlushed = 512;    ///< a work request flushed
inline constexpr uint32_t kDoorbell = 256;   ///< a doorbell taken
inline constexpr uint32_t kTurn = 256;       ///< a queue pair's turn, whatever it does
inline constexpr uint32_t kTimer = 512;      ///< a timer that ended
/// Extra for another queue pair than its client's last: its state and its buffers are in no cache, which takes 1 to
/// 2 us. Without this charge the other clients would pay for it.
inline constexpr uint32_t kChange = 40'960;
inline constexpr uint32_t kTouch = 2048;       ///< the same where the other queue pair had nothing to do
inline constexpr uint32_t kQpTurn = 1 << 19;   ///< the most that a queue pair does while another of its client waits
inline constexpr uint32_t kQuantum = 1 << 16;  ///< what each user, and each client of a user, may do in a round
/// The same while one of them sends little: the others' turns are what its messages wait for.
inline constexpr uint32_t kSparseQuantum = 1 << 12;
/// The most that an engine with several clients sends before it looks for frames and doorbells again: some
/// microseconds, for which a message may have to wait.
inline constexpr uint32_t kSharedPoll = 4 << 16;
/// The same while one of them sends little. More than such a quantum, so that its message leaves in the next poll.
inline constexpr uint32_t kSparsePoll = kFrame + 4096;
inline constexpr uint32_t kUnlimited = UINT32_MAX;

}  // namespace uroce::transport::work
