// Frames that a receiver took from its socket before their engine asked for them: one message brings several.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <rte_mbuf.h>

#include "pmd_glue/kif/behind.h"
#include "pmd_glue/kif/super_frame.h"

namespace uroce::glue::kif {

/// One thread uses it.
class ReadyFrames {
 public:
  ReadyFrames() = default;
  ReadyFrames(const ReadyFrames&) = delete;
  ReadyFrames& operator=(const ReadyFrames&) = delete;
  ~ReadyFrames() { rte_pktmbuf_free_bulk(frames_.data() + first_, static_cast<unsigned>(end_ - first_)); }

  /// Forgets what it had, which the engine has taken.
  void clear() { first_ = end_ = 0; }
  /// At most kMaxReceivedSegments since clear().
  void add(rte_mbuf* frame) { frames_[end_++] = frame; }
  std::span<rte_mbuf* const> all() const { return {frames_.data() + first_, end_ - first_}; }

  /// Gives at most out.size() frames, and stops behind a message of several. Where it has none, `receive_message` takes
  /// the next message, and returns false where there is no more.
  template <class ReceiveMessage>
  uint16_t give(std::span<rte_mbuf*> out, const ReceiveMessage& receive_message) {
    std::size_t count = 0;
    bool whole = false;
    // Messages that bring no frame count, too: a flood of forged ones must not keep the engine here.
    for (std::size_t messages = 0; count < out.size() && messages < out.size(); ++messages) {
      if (first_ == end_ && !receive_message()) break;
      const std::size_t some = std::min(out.size() - count, end_ - first_);
      std::copy_n(&frames_[first_], some, &out[count]);
      first_ += some;
      count += some;
      whole = some != 0 && first_ == end_ && end_ > 1;
      if (whole) break;
    }
    behind_ = first_ != end_ ? Behind::rest : whole || count == out.size() ? Behind::more : Behind::none;
    return static_cast<uint16_t>(count);
  }
  /// As give(), where nothing more may be taken.
  uint16_t give_rest(std::span<rte_mbuf*> out) {
    return give(out, [] { return false; });
  }
  /// Tells what may follow the frames that were given last.
  Behind behind() const { return behind_; }

 private:
  Behind behind_ = Behind::none;
  std::size_t first_ = 0, end_ = 0;  ///< frames_[first_..end_) are the engine's next
  std::array<rte_mbuf*, kMaxReceivedSegments> frames_{};
};

}  // namespace uroce::glue::kif
