#include "faults/held_frames.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace uroce::faults {

HeldFrames::HeldFrames(std::size_t longest)
    : longest_(longest), memory_(std::make_unique_for_overwrite<std::byte[]>(kMost * longest)) {
  held_.reserve(kMost);
  free_.reserve(kMost);
  for (std::size_t i = kMost; i-- != 0;) free_.push_back(static_cast<uint16_t>(i));
}

bool HeldFrames::hold(Way way, std::span<const std::byte> frame, Nanos due) {
  return keep({.way = way, .due = due}, frame);
}

bool HeldFrames::hold_behind(Way way, std::span<const std::byte> frame, uint32_t qpn, uint32_t overtakers, Nanos now) {
  if (!keep({.way = way, .qpn = qpn, .overtakers = overtakers, .due = now + kLongestReorder}, frame)) return false;
  ++reordered_;
  return true;
}

bool HeldFrames::keep(const Held& held, std::span<const std::byte> frame) {
  if (free_.empty() || frame.size() > longest_) return false;
  Held& kept = held_.emplace_back(held);
  kept.slot = free_.back();
  free_.pop_back();
  kept.length = static_cast<uint16_t>(frame.size());
  kept.order = order_++;
  std::memcpy(memory_.get() + std::size_t{kept.slot} * longest_, frame.data(), frame.size());
  due_ = std::min(due_, kept.due);
  return true;
}

void HeldFrames::passed(Way way, uint32_t qpn, Nanos now) {
  if (reordered_ == 0) return;
  for (Held& held : held_) {
    if (held.overtakers == 0 || held.way != way || held.qpn != qpn || --held.overtakers != 0) continue;
    --reordered_;
    held.due = now;
    due_ = std::min(due_, now);
  }
}

void HeldFrames::hurry() {
  for (Held& held : held_) held.due = Nanos::min();
  find_due();
}

std::optional<std::size_t> HeldFrames::first_due(Way way, Nanos now) const {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const Held& held = held_[i];
    if (held.way != way || held.due > now) continue;
    if (!first || std::tie(held.due, held.order) < std::tie(held_[*first].due, held_[*first].order)) first = i;
  }
  return first;
}

void HeldFrames::remove(std::size_t index) {
  if (held_[index].overtakers != 0) --reordered_;
  free_.push_back(held_[index].slot);
  held_[index] = held_.back();
  held_.pop_back();
  find_due();
}

void HeldFrames::find_due() {
  due_ = kNever;
  for (const Held& held : held_) due_ = std::min(due_, held.due);
}

}  // namespace uroce::faults
