#include "tests/sim/impairments.h"

#include <algorithm>

namespace uroce::sim {

// Two states: a frame of the bad one is lost. The chances to enter and to leave it give the asked share and length.
bool LossModel::loses_next() {
  if (rates_.loss > 0 && random_.chance(rates_.loss)) return true;
  if (rates_.burst_loss <= 0) return false;
  const double leave = 1 / rates_.burst_length;
  const double enter = leave * rates_.burst_loss / (1 - rates_.burst_loss);
  in_burst_ = in_burst_ ? !random_.chance(leave) : random_.chance(enter);
  return in_burst_;
}

void Reorderer::enter(FramePtr frame) {
  const uint64_t number = entered_++;
  const uint64_t places = random_.chance(rates_.reorder_chance) ? random_.below(rates_.reorder + 1) : 0;
  if (places == 0) {
    exit_.leave(std::move(frame));
  } else {
    ++held_count_;
    held_.push_back({number, entered_ + places, std::move(frame)});
    events_.schedule(events_.now() + hold_max_, *this, number);
  }
  release_due();
}

void Reorderer::release_due() {
  for (std::size_t i = 0; i < held_.size();) {
    if (held_[i].due > entered_) {
      ++i;
      continue;
    }
    FramePtr frame = std::move(held_[i].frame);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    exit_.leave(std::move(frame));
  }
}

// The hold ends by time where nothing follows that could overtake.
void Reorderer::on_event(uint64_t number) {
  const auto at = std::ranges::find(held_, number, &Held::number);
  if (at == held_.end()) return;
  FramePtr frame = std::move(at->frame);
  held_.erase(at);
  exit_.leave(std::move(frame));
}

}  // namespace uroce::sim
