#include "control/held_completions.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "base/random.h"
#include "queues/cq_poller.h"

namespace uroce::control {

namespace {

constexpr auto kOfSolicited = static_cast<uint32_t>(queues::Arm::solicited);
constexpr uint8_t kOfReceives = 128;  // WcOpcode

/// The work queue that a completion is of.
std::pair<uint32_t, bool> queue_of(const queues::Cqe& cqe) { return {cqe.qpn, (cqe.opcode & kOfReceives) != 0}; }

}  // namespace

HeldCompletions::HeldCompletions(uint32_t cq, const queues::CqPlace& to, std::unique_ptr<QueueMemory> memory,
                                 uint32_t rings)
    : cq_(cq),
      program_(to),
      memory_(std::move(memory)),
      place_(queues::CqPlace::at(memory_->data(), memory_->data() + sizeof(queues::CqHeader), to.entries)),
      producers_(rings),
      waiting_of_(rings) {
  place_.header->arm.store(kOfSolicited, std::memory_order_relaxed);
  for (uint32_t engine = 0; engine < rings; ++engine) consumers_.emplace_back(place_.ring(engine));
}

Result<std::unique_ptr<HeldCompletions>> HeldCompletions::create(uint32_t cq, const queues::CqPlace& to,
                                                                 uint32_t rings) {
  auto memory = HeapAllocator().allocate(sizeof(queues::CqHeader) + queues::CqPlace::ring_bytes_of(to.entries, rings));
  if (!memory) return std::unexpected(memory.error());
  return std::unique_ptr<HeldCompletions>(new HeldCompletions(cq, to, std::move(*memory), rings));
}

void HeldCompletions::take(CompletionRules& rules, Nanos now) {
  // An engine takes the arming with a solicited completion, of which the completion itself does not tell.
  const bool solicited = place_.header->arm.exchange(kOfSolicited, std::memory_order_acq_rel) != kOfSolicited;
  for (uint32_t engine = 0; engine < consumers_.size(); ++engine) {
    if (!producers_[engine]) continue;
    queues::RingConsumer& from = consumers_[engine];
    // Completions that the program's queue cannot take stay here, so that an overrun is still seen.
    while (from.available() != 0 && waiting_of_[engine] < producers_[engine]->room()) {
      const CompletionFate fate = rules.fate_of(cq_, now);
      Waiting& one = waiting_.emplace_back(Waiting{.cqe = {},
                                                   .engine = engine,
                                                   .solicited = solicited,
                                                   .from = now + fate.delay,
                                                   .until = now + fate.delay + fate.patience,
                                                   .fate = fate});
      std::memcpy(&one.cqe, from.slot(), sizeof one.cqe);
      from.consume(1);
      ++waiting_of_[engine];
    }
  }
}

std::size_t HeldCompletions::due(Nanos now) const {
  if (waiting_.empty() || waiting_.front().from > now) return 0;
  const Waiting& first = waiting_.front();
  if (first.fate.together == 0) return 1;
  std::size_t count = 1;
  while (count < std::min<std::size_t>(waiting_.size(), first.fate.together) && waiting_[count].from <= now) ++count;
  return count == first.fate.together || first.until <= now ? count : 0;
}

void HeldCompletions::mix(std::size_t count) {
  // Completions of one work queue come in its order. QPNs are drawn anew in each run, so that ranks must not follow
  // from them.
  Random random(waiting_.front().fate.seed);
  std::map<std::pair<uint32_t, bool>, uint64_t> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [rank, is_new] = ranks.try_emplace(queue_of(waiting_[i].cqe));
    if (is_new) rank->second = random.next();
  }
  std::stable_sort(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count),
                   [&](const Waiting& a, const Waiting& b) { return ranks[queue_of(a.cqe)] < ranks[queue_of(b.cqe)]; });
}

bool HeldCompletions::give(std::size_t count, Nanos now) {
  if (waiting_.front().fate.mixed) mix(count);
  std::vector<uint32_t> given(producers_.size());
  bool has_room = true;
  for (; count > 0; --count) {
    const Waiting& one = waiting_.front();
    queues::RingProducer& to = *producers_[one.engine];
    // There was room when it was taken. A program that writes a wrong index loses only its own.
    has_room = given[one.engine] < to.room();
    if (!has_room) break;
    std::memcpy(to.slot(given[one.engine]++), &one.cqe, sizeof one.cqe);
    event_at_ = std::min(event_at_.value_or(kNever), now + one.fate.event_delay);
    event_is_solicited_ |= one.solicited;
    --waiting_of_[one.engine];
    waiting_.pop_front();
  }
  for (std::size_t engine = 0; engine < given.size(); ++engine) {
    if (given[engine] != 0) producers_[engine]->publish(given[engine]);
  }
  return has_room;
}

bool HeldCompletions::event_is_due(Nanos now) {
  if (!event_at_ || *event_at_ > now) return false;
  event_at_.reset();
  // As an engine does: the program arms, then polls; this writes, then looks at the arming.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto armed = static_cast<queues::Arm>(program_.header->arm.load(std::memory_order_relaxed));
  const bool solicited = std::exchange(event_is_solicited_, false);
  if (armed == queues::Arm::none || (armed == queues::Arm::solicited && !solicited)) return false;
  return queues::disarm(*program_.header);
}

bool HeldCompletions::release(Nanos now) {
  for (std::size_t count = due(now); count != 0 && give(count, now);) count = due(now);
  return event_is_due(now);
}

bool HeldCompletions::release_all(Nanos now) {
  for (Waiting& one : waiting_) one.fate = {};
  if (!waiting_.empty()) (void)give(waiting_.size(), now);
  if (event_at_) event_at_ = now;
  return event_is_due(now);
}

std::pair<uint32_t, bool> HeldCompletions::end(uint32_t engine) {
  const std::pair written(producers_[engine]->next(), consumers_[engine].available() == 0);
  producers_[engine].reset();
  return written;
}

uint64_t HeldCompletions::size() const {
  uint64_t count = waiting_.size();
  for (const queues::RingConsumer& one : consumers_) count += one.available();
  return count;
}

}  // namespace uroce::control
