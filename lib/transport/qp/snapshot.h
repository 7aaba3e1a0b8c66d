// A queue pair's state as bytes, so that another engine can go on with it in mid-traffic.
//
// The bytes hold no pointer and no absolute time. They hold everything that the engine's side knows, which README.md
// lists ("Moving a queue pair"), and the version of this code that wrote them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Raised by every change of what a snapshot holds.
inline constexpr uint32_t kSnapshotVersion = 12;
/// The oldest version that this release reads, and can write: archives have the version (SnapshotArchive::version()).
inline constexpr uint32_t kOldestSnapshotVersion = 8;

/// Writes `qp` as of ctx.now and leaves it unchanged. Between bursts only: no frame of the QP is being built. Engine's
/// thread.
std::vector<std::byte> write_snapshot(const Context& ctx, Qp& qp, uint32_t version = kSnapshotVersion);

/// The QP in a recording (Engine::image()): of frames in reorder buffers the headers alone, and what only another
/// engine forgets.
std::vector<std::byte> write_qp_image(const Context& ctx, Qp& qp);
/// As read_snapshot(). The engine's image tells what is due.
Result<void> read_qp_image(Context& ctx, Qp& qp, std::span<const std::byte> image);

/// Before the fields: magic, version, length and checksum.
inline constexpr std::size_t kSnapshotHeaderBytes = 16;
/// Makes length and checksum fit `snapshot`, of at least kSnapshotHeaderBytes, when its fields were changed.
void seal_snapshot(std::span<std::byte> snapshot);

/// The engine's part for a QP that was read.
struct Resumption {
  Outcome due;             ///< timers to set, and whether it has something to send
  Nanos turn_at = kNever;  ///< when a paced QP looks again whether it may send
};

/// Reads a snapshot into `qp`, which make_qp() has just made of the same QpSpec: the same number, type, domain, rings
/// and limits, though the rings may be mapped at other addresses. Frames of reorder buffers take room in ctx.frames.
/// Shared memory is not touched. Engine's thread. Errors: EINVAL: the bytes are no snapshot, of another version,
/// damaged, of another QP, or make no sense; the text names the field. ENOMEM: the frame pool is full. After an
/// error the QP can only be destroyed.
Result<Resumption> read_snapshot(Context& ctx, Qp& qp, std::span<const std::byte> snapshot);

}  // namespace uroce::transport
