#include "control/cq.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "control/check_size.h"
#include "control/device_session.h"

namespace uroce::control {

namespace {

/// All goes on at once.
class NoRules final : public CompletionRules {
 public:
  CompletionFate fate_of(uint32_t, Nanos) override { return {}; }
};

}  // namespace

Result<std::shared_ptr<Cq>> DeviceSession::create_cq(uint32_t entries, std::shared_ptr<CqChannel> channel,
                                                     transport::CqOverrun overrun, const CqState* as) {
  if (as != nullptr && as->rings.size() != device_->engines()) {
    return fail(EINVAL, fmt::format("cannot go on with completion queue {} of {} rings: {} has {} engines", as->id,
                                    as->rings.size(), device_->config().name, device_->engines()));
  }
  if (auto ok = check_size("the completion queue's number of entries", entries, 1, kMaxCqe); !ok) {
    return std::unexpected(ok.error());
  }
  if (channel != nullptr) {
    if (auto ok = check_owner(channel.get(), channel->session().get(), "completion channel"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  entries = std::bit_ceil(entries);
  auto header = allocator_->allocate(sizeof(queues::CqHeader));
  if (!header) return std::unexpected(header.error());
  auto rings = allocator_->allocate(queues::CqPlace::ring_bytes_of(entries, device_->engines()));
  if (!rings) return std::unexpected(rings.error());
  auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  const auto id = as != nullptr ? device_->objects().take_cq(as->id) : device_->objects().take_cq();
  if (!id) return std::unexpected(id.error());
  std::shared_ptr<Cq> cq(new Cq(shared_from_this(), *id, entries, device_->engines(), std::move(*header),
                                std::move(*rings), std::move(channel), overrun, as),
                         &Cq::destroy);
  device_->objects().cqs().set(*id, cq.get());
  device_->events().add(EventObject::cq, *id, *events_);
  const Result<void> held = device_->completion_rules() != nullptr ? cq->hold() : Result<void>();
  lock.unlock();
  if (!held) return std::unexpected(held.error());
  if (as == nullptr || as->moderation_count == 0) return cq;
  if (auto moderated = cq->moderate(as->moderation_count, as->moderation_us); !moderated) {
    return std::unexpected(moderated.error());
  }
  return cq;
}

Cq::Cq(std::shared_ptr<DeviceSession> session, uint32_t id, uint32_t entries, uint32_t engines,
       std::unique_ptr<QueueMemory> header, std::unique_ptr<QueueMemory> rings, std::shared_ptr<CqChannel> channel,
       transport::CqOverrun overrun, const CqState* as)
    : session_(std::move(session)),
      id_(id),
      header_(std::move(header)),
      rings_(std::move(rings)),
      place_(queues::CqPlace::at(header_->data(), rings_->data(), entries)),
      channel_(std::move(channel)),
      overrun_(overrun) {
  writers_.reserve(engines);
  for (uint32_t engine = 0; engine < engines; ++engine) {
    const auto from = as != nullptr ? as->rings[engine] : transport::CqPosition{};
    writers_.push_back({transport::CqWriter(id_, place_.header, place_.ring(engine), overrun, from)});
  }
}

Result<void> Cq::resize(uint32_t entries) {
  Device& device = *session_->device();
  if (entries < 1 || entries > kMaxCqe) {
    return fail(EINVAL, fmt::format("cannot resize completion queue {} to {} entries; it must have 1 to {}", id_,
                                    entries, kMaxCqe));
  }
  entries = std::bit_ceil(entries);
  auto memory = session_->allocator().allocate(queues::CqPlace::ring_bytes_of(entries, rings()));
  if (!memory) return std::unexpected(memory.error());
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return alive;
  if (auto gone_on = let_go(); !gone_on) return gone_on;
  uint32_t used = 0;
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    const auto look = [&](transport::Engine&) { used = std::max(used, writer(engine).used()); };
    if (auto ran = device.runner().run(engine, look); !ran) return ran;
  }
  if (used > entries) {
    return fail(
        EINVAL,
        fmt::format(
            "cannot resize completion queue {}: it holds {} completions, and {} entries are wanted; poll them first",
            id_, used, entries));
  }
  const auto place = queues::CqPlace::at(header_->data(), (*memory)->data(), entries);
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    // Completions since the check above that do not fit are an overrun.
    const auto work = [&](transport::Engine&) { writer(engine).move(place.ring(engine)); };
    if (auto ran = device.runner().run(engine, work); !ran) {
      // Some engines already write to the new rings, this one to the old ones: both stay as long as the queue.
      abandoned_.push_back(std::move(*memory));
      return ran;
    }
  }
  rings_ = std::move(*memory);
  place_ = place;
  return device.completion_rules() != nullptr ? hold() : Result<void>();
}

Result<void> Cq::moderate(uint16_t count, uint16_t period_us) {
  Device& device = *session_->device();
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return alive;
  moderated_ = true;
  moderation_count_ = count;
  moderation_us_ = period_us;
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    const auto work = [&](transport::Engine& on) {
      writer(engine).moderate(on.held_events(), count, std::chrono::microseconds(period_us));
    };
    if (auto ran = device.runner().run(engine, work); !ran) return ran;
  }
  return {};
}

uint64_t Cq::unread() const {
  const auto lock = session_->device()->runner().lock();
  uint64_t unread = 0;
  for (uint32_t engine = 0; engine < rings(); ++engine) unread += place_.ring(engine).filled();
  return unread + (held_ ? held_->size() : 0);
}

CqState Cq::state() {
  Device& device = *session_->device();
  CqState state{.id = id_, .moderation_count = moderation_count_, .moderation_us = moderation_us_, .rings = {}};
  const auto lock = device.runner().lock();
  (void)let_go();
  for (Writer& writer : writers_) state.rings.push_back(writer.writer.position(device.events()));
  return state;
}

bool Cq::is_forgotten() {
  for (uint32_t engine = 0; moderated_ && engine < rings(); ++engine) {
    const auto work = [&](transport::Engine& on) { writer(engine).forget(on.held_events()); };
    if (!session_->device()->runner().run(engine, work)) return false;
  }
  return true;
}

void Cq::destroy(Cq* cq) {
  {
    const std::shared_ptr<Device> held = cq->session_->device();
    Device& device = *held;
    const auto lock = device.runner().lock();
    if (!cq->is_forgotten()) {
      // An engine may raise its events; it stays until the engine answers or is known to be stopped.
      device.objects().defer([cq] { destroy(cq); });
      return;
    }
    device.events().remove(EventObject::cq, cq->id_);
    device.objects().give_back_cq(cq->id_);
  }
  delete cq;
}

transport::CqPosition Cq::rewrite(uint32_t engine, queues::CqHeader* header, queues::RingPlace ring,
                                  const transport::CqPosition& from) {
  Device& device = *session_->device();
  transport::Engine& on = device.engine(engine);
  transport::CqWriter& old = writer(engine);
  const transport::CqPosition before = old.position(device.events());
  if (moderated_) old.forget(on.held_events());
  transport::Tape* const tape = old.tape();
  old =
      transport::CqWriter(id_, header, ring, overrun_, {.next = from.next, .overrun = before.overrun || from.overrun});
  old.set_tape(tape);
  if (moderated_) old.moderate(on.held_events(), moderation_count_, std::chrono::microseconds(moderation_us_));
  if (from.overrun && !before.overrun) device.events().on_async_event(AsyncEventType::cq_error, id_);
  return before;
}

Result<void> Cq::exempt() {
  exempt_ = true;
  return let_go();
}

Result<void> Cq::hold() {
  if (exempt_ || is_held_.load(std::memory_order_relaxed)) return {};
  if (!held_) {
    auto made = HeldCompletions::create(id_, place_, rings());
    if (!made) return std::unexpected(made.error());
    held_ = std::move(*made);
  }
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    if (held_->has(engine)) continue;
    const auto work = [&](transport::Engine&) {
      held_->begin(engine, rewrite(engine, &held_->header(), held_->ring(engine), {}).next);
    };
    if (auto ran = session_->device()->runner().run(engine, work); !ran) return ran;
  }
  is_held_.store(true, std::memory_order_relaxed);
  return {};
}

Result<void> Cq::let_go() {
  if (!held_) return {};
  Device& device = *session_->device();
  // Until the engines have gone back, their events for held completions come too soon, which harms nobody.
  is_held_.store(false, std::memory_order_relaxed);
  NoRules none;
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    if (!held_->has(engine)) continue;
    const auto work = [&](transport::Engine&) {
      release(none, device.runner().host().clock(), true);
      const auto [next, complete] = held_->end(engine);
      rewrite(engine, place_.header, place_.ring(engine),
              {.next = next, .overrun = !complete && overrun_ == transport::CqOverrun::fails});
    };
    if (auto ran = device.runner().run(engine, work); !ran) return ran;
  }
  held_.reset();
  return {};
}

void Cq::release(CompletionRules& rules, Nanos now, bool all) {
  if (!held_) return;
  held_->take(rules, now);
  if (all ? held_->release_all(now) : held_->release(now)) raise();
}

void Cq::fail_by_overrun() {
  if (exempt_ || overrun_ == transport::CqOverrun::ignored) return;
  for (uint32_t engine = 0; engine < rings(); ++engine) {
    const auto work = [&](transport::Engine&) {
      const bool held = held_ && held_->has(engine);
      const uint32_t next = writer(engine).position(session_->device()->events()).next;
      rewrite(engine, held ? &held_->header() : place_.header, held ? held_->ring(engine) : place_.ring(engine),
              {.next = next, .overrun = true});
    };
    (void)session_->device()->runner().run(engine, work);
  }
}

void Cq::raise() {
  if (channel_ == nullptr) return;
  // Raise the count first: the application reads a token and then looks for its queue, whose count has changed.
  place_.header->fired.fetch_add(1, std::memory_order_release);
  channel_->signal(id_);
}

}  // namespace uroce::control
