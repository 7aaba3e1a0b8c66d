// The part of --verify in a stream: rounds, contents of messages, and their check.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "perf/initiator.h"

namespace uroce::perf {
namespace {

constexpr uint32_t kAtomicRound = 4096;  ///< about; atomics need no message from the peer between rounds

}  // namespace

void Initiator::next_round() {
  const uint32_t unit = std::max(plan_.list, plan_.cq_mod);  // a multiple of both
  round_begin_ = round_end_;
  round_end_ += options_.test.verb == Verb::atomic ? (kAtomicRound / unit + 1) * unit : plan_.ring;
  if (!options_.timed()) round_end_ = std::min(round_end_, options_.iters);
  if (options_.test.verb == Verb::read) {
    round_ = RoundState::ask;
  } else {
    run_round();
  }
}

/// A round is complete. The peer's memory shows the result of WRITEs, and at the end that of atomics.
void Initiator::round_completed() {
  const Verb verb = options_.test.verb;
  if (verb == Verb::write || verb == Verb::flush || (verb == Verb::atomic && last_round())) {
    round_ = RoundState::ask;
  } else {
    end_round();
  }
}

void Initiator::end_round() {
  if (!last_round()) return next_round();
  round_ = RoundState::finished;
  target_ = completed_;
}

std::optional<Message> Initiator::request() {
  if (round_ != RoundState::ask) return std::nullopt;
  round_ = RoundState::waiting;
  Message m;
  m.type = options_.test.verb == Verb::read ? MessageType::fill : MessageType::check;
  const uint64_t first = options_.test.verb == Verb::atomic ? 0 : round_begin_;
  m.round = {plan_.size, first, round_end_ - first};
  return m;
}

void Initiator::granted() {
  if (round_ != RoundState::waiting) return;
  if (options_.test.verb == Verb::read) return run_round();
  if (options_.test.verb == Verb::write || options_.test.verb == Verb::flush) {
    verified_ += (round_end_ - round_begin_) * streams_.size();
  }
  // Of the ATOMIC WRITEs to a word the last is seen.
  if (writes_words()) verified_ += std::min<uint64_t>(round_end_, plan_.ring) * streams_.size();
  end_round();
}

/// The payload or the operands of one message.
void Initiator::set_operands(SendRequest& request, uint32_t slot, uint32_t index, uint64_t iteration) const {
  if (options_.test.verb == Verb::atomic) {
    const AtomicModel word = model(index, slot);
    request.compare_add = word.compare_add(iteration / plan_.ring);
    request.swap = word.swap(iteration / plan_.ring);
  } else if (options_.test.verb != Verb::read) {
    fill_pattern({streams_[index].local + slot * plan_.stride, plan_.size}, {direction_, index, iteration});
  }
}

bool Initiator::writes_words() const {
  return options_.test.verb == Verb::atomic && options_.atomic_type == AtomicType::write;
}

AtomicModel Initiator::model(uint32_t index, uint32_t slot) const {
  return {options_.atomic_type, {1 - direction_, index, slot}};
}

bool Initiator::verify(const QpStream& stream, uint32_t index, uint64_t iteration) {
  const auto slot = static_cast<uint32_t>(iteration % plan_.ring);
  const std::byte* const local = stream.local + slot * plan_.stride;
  if (options_.test.verb == Verb::read) {
    const PatternKey key{1 - direction_, index, iteration};
    if (const auto wrong = check_pattern({local, plan_.size}, key)) {
      give_up(describe(*wrong, "READ", key, plan_.size));
      return false;
    }
    ++verified_;
  } else if (options_.test.verb == Verb::atomic && !writes_words()) {
    uint64_t got = 0;
    std::memcpy(&got, local, sizeof got);
    const uint64_t expected = model(index, slot).value(iteration / plan_.ring);
    if (got != expected) {
      give_up(fmt::format("{}, QP {}, iteration {}: expected to find {:#x}, got {:#x}",
                          atomic_name(options_.atomic_type), index, iteration, expected, got));
      return false;
    }
    ++verified_;
  }
  return true;
}

}  // namespace uroce::perf
