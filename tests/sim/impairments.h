// Faults of a link besides delay: loss, bursts of loss, reordering. All seeded.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/random.h"
#include "tests/sim/events.h"
#include "tests/sim/frames.h"

namespace uroce::sim {

struct ImpairmentRates {
  double loss = 0;            ///< each frame, independently
  double burst_loss = 0;      ///< share of the time in which the link loses every frame (Gilbert-Elliott)
  double burst_length = 8;    ///< mean length of such a burst, in full frames
  uint32_t reorder = 0;       ///< frames that may overtake one, 0: none
  double reorder_chance = 1;  ///< share of frames that are held until 0..reorder others have passed
};

/// Decides which frames are lost.
class LossModel {
 public:
  /// `frame_time`: what a full frame takes on the link.
  LossModel(const ImpairmentRates& rates, Picos frame_time, uint64_t seed);
  /// `now` never goes back.
  bool loses(Picos now);

 private:
  Picos draw(double mean_ps);

  ImpairmentRates rates_;
  Random random_;
  bool in_burst_ = true;
  double burst_ps_;
  double pause_ps_;
  Picos change_{0};  ///< when a burst begins or ends next
};

/// Holds frames back until others have passed; none is lost, none held for longer than `hold_max`.
class Reorderer : public Handler {
 public:
  /// Where frames go on.
  class Exit {
   public:
    virtual ~Exit() = default;
    virtual void leave(FramePtr frame) = 0;
  };
  Reorderer(EventQueue& events, const ImpairmentRates& rates, Picos hold_max, Exit& exit, uint64_t seed)
      : events_(events), rates_(rates), hold_max_(hold_max), exit_(exit), random_(seed) {}

  void enter(FramePtr frame);
  void on_event(uint64_t number) override;
  uint64_t held() const { return held_count_; }

 private:
  struct Held {
    uint64_t number;
    uint64_t due;  ///< leaves once this many frames have entered
    FramePtr frame;
  };
  void release_due();

  EventQueue& events_;
  ImpairmentRates rates_;
  Picos hold_max_;
  Exit& exit_;
  Random random_;
  uint64_t entered_ = 0;
  uint64_t held_count_ = 0;
  std::vector<Held> held_;  ///< oldest first, at most `reorder`
};

}  // namespace uroce::sim
