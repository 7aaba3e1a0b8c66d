#include "tests/sim/impairments.h"

#include <algorithm>
#include <cmath>

namespace uroce::sim {

LossModel::LossModel(const ImpairmentRates& rates, Picos frame_time, uint64_t seed)
    : rates_(rates),
      random_(seed),
      burst_ps_(rates.burst_length * static_cast<double>(frame_time.count())),
      pause_ps_(burst_ps_ * (1 - rates.burst_loss) / rates.burst_loss) {}

Picos LossModel::draw(double mean_ps) {
  const double uniform = static_cast<double>((random_.next() >> 11) + 1) * 0x1p-53;
  return Picos(std::llround(-std::log(uniform) * mean_ps));
}

// Bursts are stretches of time, not numbers of frames: a link that nearly rests is not broken for longer than a busy
// one.
bool LossModel::loses(Picos now) {
  if (rates_.loss > 0 && random_.chance(rates_.loss)) return true;
  if (rates_.burst_loss <= 0) return false;
  while (change_ <= now) {
    in_burst_ = !in_burst_;
    change_ += draw(in_burst_ ? burst_ps_ : pause_ps_);
  }
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
