#include "nvmf/admission.h"

#include <tuple>

namespace uroce::nvmf {

namespace {

/// Queues beyond the bound, until the reactors of evicted ones have ended them.
constexpr uint32_t kMostBeyond = kIoQueues + 1;

}  // namespace

Admission::Address Admission::known(const Gid& address) const {
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? Address{} : found->second;
}

Admission::Answer Admission::admit(const Gid& address) const {
  const Address newcomer = known(address);
  if (newcomer.queues >= bounds_.queues_of_host() || newcomer.waiting >= bounds_.waiting_of_host()) return {};
  if (places_.size() - leaving_ < bounds_.max_queues) return {.admitted = true};
  if (places_.size() >= bounds_.max_queues + kMostBeyond) return {};
  const auto instead = victim(newcomer);
  return {.admitted = instead.has_value(), .instead = instead};
}

std::optional<uint32_t> Admission::victim(const Address& newcomer) const {
  std::optional<uint32_t> found;
  // Addresses of no listed host come first, then the most that wait, then the oldest.
  std::tuple<bool, uint32_t, uint64_t> best{};
  for (const auto& [number, place] : places_) {
    if (place.state != State::waiting) continue;
    const Address of = known(place.address);
    const bool stranger = of.listed == 0;
    const bool gives_way = stranger && newcomer.listed > 0;
    if (!gives_way && of.waiting <= newcomer.waiting) continue;
    if (!stranger && newcomer.listed == 0) continue;
    const std::tuple rank{stranger, of.waiting, UINT64_MAX - place.turn};
    if (found && rank <= best) continue;
    found = number;
    best = rank;
  }
  return found;
}

void Admission::count(Address& address, State state, uint32_t by) {
  if (state == State::leaving) leaving_ += by;
  if (state == State::waiting) address.waiting += by;
  if (state == State::listed) address.listed += by;
}

void Admission::opened(uint32_t number, const Gid& address) {
  places_.insert_or_assign(number, Place{.address = address, .turn = next_turn_++});
  Address& of = addresses_[address];
  ++of.queues;
  ++of.waiting;
}

void Admission::enter(uint32_t number, State state) {
  const auto found = places_.find(number);
  if (found == places_.end()) return;
  Address& of = addresses_[found->second.address];
  count(of, found->second.state, -1u);
  count(of, state, 1);
  found->second.state = state;
}

void Admission::connected(uint32_t number, bool listed) { enter(number, listed ? State::listed : State::connected); }

void Admission::evicted(uint32_t number) { enter(number, State::leaving); }

void Admission::ended(uint32_t number) {
  const auto found = places_.find(number);
  if (found == places_.end()) return;
  const auto of = addresses_.find(found->second.address);
  count(of->second, found->second.state, -1u);
  if (--of->second.queues == 0) addresses_.erase(of);
  places_.erase(found);
}

}  // namespace uroce::nvmf
