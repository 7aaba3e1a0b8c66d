// The packet buffer that a switch's ports share: who may put a packet into it, and which upstream port must pause.
//
// Without PFC an output queue may hold `alpha` times what is free (dynamic thresholds, Choudhury and Hahne 1998), and a
// packet beyond is dropped. With PFC nothing is dropped for its queue: an input whose packets take more than
// `pfc_alpha` times what is free is paused, and headroom takes what comes until the pause acts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace uroce::sim {

struct BufferOptions {
  uint64_t bytes = 32 << 20;  ///< shared by all queues
  double alpha = 1;
  bool pfc = false;
  double pfc_alpha = 0.125;
  uint64_t hysteresis = 2 * 4352;  ///< below the threshold at which an input pauses, it resumes
};

class SharedBuffer {
 public:
  explicit SharedBuffer(const BufferOptions& options) : options_(options) {}

  /// Another port, with room for the bytes that come until its far end has paused.
  void add_port(uint64_t headroom) {
    ports_.push_back({});
    if (options_.pfc) headroom_ += headroom;
  }

  /// True: `bytes` from port `in` stand in the queue of port `out` now.
  bool admit(uint32_t in, uint32_t out, uint32_t bytes) {
    if (used_ + bytes > capacity()) return false;
    if (!options_.pfc && static_cast<double>(ports_[out].queued + bytes) > threshold(options_.alpha)) return false;
    used_ += bytes;
    most_ = std::max(most_, used_);
    ports_[in].from += bytes;
    ports_[out].queued += bytes;
    return true;
  }
  void release(uint32_t in, uint32_t out, uint32_t bytes) {
    used_ -= bytes;
    ports_[in].from -= bytes;
    ports_[out].queued -= bytes;
  }

  /// Does port `in` ask its far end to pause now? Said once.
  bool pauses(uint32_t in) {
    Port& port = ports_[in];
    if (!options_.pfc || port.paused || static_cast<double>(port.from) <= threshold(options_.pfc_alpha)) return false;
    return port.paused = true;
  }
  /// Does it let it go on now? Said once. An input that holds nothing always goes on.
  bool resumes(uint32_t in) {
    Port& port = ports_[in];
    if (!port.paused || static_cast<double>(port.from) > resume_threshold()) return false;
    port.paused = false;
    return true;
  }

  uint64_t queued(uint32_t out) const { return ports_[out].queued; }
  uint64_t used() const { return used_; }
  uint64_t most() const { return most_; }
  /// Shared bytes and headroom.
  uint64_t capacity() const { return options_.bytes + headroom_; }

 private:
  struct Port {
    uint64_t from = 0;    ///< bytes in the buffer that came in here
    uint64_t queued = 0;  ///< bytes that go out here
    bool paused = false;
  };

  double threshold(double alpha) const {
    return alpha * static_cast<double>(options_.bytes - std::min(used_, options_.bytes));
  }
  double resume_threshold() const {
    return std::max(0.0, threshold(options_.pfc_alpha) - static_cast<double>(options_.hysteresis));
  }

  BufferOptions options_;
  uint64_t headroom_ = 0;
  uint64_t used_ = 0;
  uint64_t most_ = 0;
  std::vector<Port> ports_;
};

}  // namespace uroce::sim
