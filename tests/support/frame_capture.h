// A sink that keeps what an engine sends as whole frames, as they would stand on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "transport/core/seam.h"

namespace uroce::test {

using Frame = std::vector<std::byte>;

struct SentFrame {
  Frame bytes;  ///< Ethernet to ICRC
  bool loopback = false;
  bool raw = false;
  uint32_t raw_receiver = 0;

  /// A frame that stays here besides leaving to a group is copied once.
  bool is_for_sniffers() const { return !loopback || (bytes[0] & std::byte{1}) == std::byte{0}; }
};

/// Headers, payload, pad and ICRC of one TxFrame as bytes at `out`, which must have room. Returns their number.
std::size_t serialize_to(const transport::TxFrame& frame, std::span<std::byte> out);
/// The same as a frame of its own.
Frame serialize(const transport::TxFrame& frame);

class FrameCapture : public transport::FrameSink {
 public:
  std::size_t room() override { return room_; }
  void send(std::span<const transport::TxFrame> frames) override;

  /// Offers each burst to `take` first, while no frame waits here. `take` returns true when it has handled the burst.
  void set_local(std::function<bool(std::span<const transport::TxFrame>)> take) { local_ = std::move(take); }
  /// Frames sent since the last call, oldest first.
  std::vector<SentFrame> take() { return std::exchange(frames_, {}); }
  /// How many more frames are taken; each one sent uses one up.
  void set_room(std::size_t room) { room_ = room; }

 private:
  std::size_t room_ = SIZE_MAX;
  std::function<bool(std::span<const transport::TxFrame>)> local_;
  std::vector<SentFrame> frames_;
};

}  // namespace uroce::test
