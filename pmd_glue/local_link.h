// The shortest way of a frame: to an engine of the same thread, as its descriptor. There is no buffer, no ICRC, and one
// copy of the payload, from its source to its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/port.h"
#include "transport/engine/engine.h"

struct rte_ring;

namespace uroce::glue {

/// The queue pair that a frame which is not raw is for.
uint32_t dest_qpn_of(const transport::TxFrame& frame);

/// The end of such a way: a port queue's engine. All calls on its thread.
class LocalReceiver {
 public:
  /// All outlive it. `queue`: the engine's on the port, if it has one.
  LocalReceiver(transport::Engine& engine, const Handover& handover, const Port& port, std::optional<uint16_t> queue)
      : engine_(engine), handover_(handover), port_(port), queue_(queue) {}

  /// Frames for the queue pair come to this engine, and to no other.
  bool serves(uint32_t qpn) const { return qpn != kMulticastQpn && handover_.engine_of(qpn) == engine_.config().index; }
  /// Somebody sees the frames that the device receives, and must see whole ones.
  bool is_watched() const {
    return is_watched_ || engine_.flows().has_sniffers() || (queue_ && port_.shows_received(*queue_));
  }
  /// Set while a capture or fault rules need whole frames.
  void set_watched(bool watched) { is_watched_ = watched; }
  void take(std::span<const transport::TxFrame> frames, Nanos now) { engine_.on_local_frames(frames, now); }

 private:
  transport::Engine& engine_;
  const Handover& handover_;
  const Port& port_;
  const std::optional<uint16_t> queue_;
  bool is_watched_ = false;
};

/// The way from one engine's sink to a receiver. `buffers` is where frames for the same receiver wait that took the way
/// of buffers instead. They come first.
class LocalLink {
 public:
  /// A link that is never open.
  LocalLink() = default;
  LocalLink(LocalReceiver& receiver, const rte_ring& buffers) : receiver_(&receiver), buffers_(&buffers) {}

  bool is_watched() const { return receiver_ != nullptr && receiver_->is_watched(); }
  /// Before each burst: whether frames may take this way now. `sender_is_watched`: somebody sees what the sender
  /// sends. `waiting`: frames in the sender's sink that will take the other way.
  bool open(bool sender_is_watched, std::size_t waiting);
  /// Gives the receiver the frames at the beginning of `frames` that are for it, and returns how many.
  std::size_t hand_over(std::span<const transport::TxFrame> frames, Nanos now);

 private:
  LocalReceiver* receiver_ = nullptr;
  const rte_ring* buffers_ = nullptr;
  bool detour_ = false;  // frames may be in `buffers_`
};

}  // namespace uroce::glue
