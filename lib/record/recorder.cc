#include "record/recorder.h"

#include <algorithm>
#include <cstring>

#include "record/keyframe.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"

namespace uroce::record {
namespace {

using transport::Engine;
using transport::Qp;
using transport::Srq;

// Queue pairs that are looked at after a call: those of a busy program, and some of many.
constexpr std::size_t kLooksPerCall = 64;
constexpr uint32_t kDoorbellsPerPoll = 64;

}  // namespace

Recorder::~Recorder() {
  for (const auto& [cq, users] : cqs_) cq->set_tape(nullptr);
}

memory::RegionTable& Recorder::keys(memory::RegionTable& real) {
  real_keys_ = &real;
  return keys_;
}

const transport::AddressHandleTable* Recorder::handles(const transport::AddressHandleTable* real) {
  real_handles_ = real;
  return real != nullptr ? &handles_ : nullptr;
}

transport::EngineEvents& Recorder::events(transport::EngineEvents& real) {
  real_events_ = &real;
  return *this;
}

// --- Calls ------------------------------------------------------------------------------------------------------

void Recorder::begin_call() {
  ++depth_;
  write_idle();
  write_tables();
}

// Its time counts before whatever follows.
void Recorder::write_idle() {
  if (idle_ < Nanos(0)) return;
  out_.put(Kind::idle, 0, std::exchange(idle_, Nanos(-1)));
}

void Recorder::end_call() {
  out_.put(Kind::end, 0);
  look_after_call();
  if (--depth_ != 0) return;
  if (ended_) [[unlikely]]
    tell_of_end();
  if (out_.wants_keyframe()) [[unlikely]]
    keyframe();
}

void Recorder::on_end(const transport::QpEnd& end) {
  real_events_->on_end(end);
  if (ended_) {
    ++more_ended_;
  } else if (tell_end_) {
    ended_ = end;
  }
}

[[gnu::cold]] void Recorder::tell_of_end() {
  out_.pin();
  tell_end_(*ended_, std::exchange(more_ended_, 0));
  ended_.reset();
}

[[gnu::cold]] void Recorder::keyframe() {
  write_tables();
  Keyed keyed{.engine = *engine_, .qps = {}, .srqs = {}};
  for (const auto& [qp, shadow] : qps_) keyed.qps.emplace_back(const_cast<Qp*>(qp), shadow.get());
  for (const auto& [srq, shadow] : srqs_) keyed.srqs.emplace_back(srq, shadow.get());
  // A replay that begins here has found none.
  known_handles_.clear();
  forget_regions();
  checks_ = handle_checks_ = 0;
  groups_seen_ = engine_->groups().revision();
  flows_seen_ = std::as_const(*engine_).flows().revision();
  const bool gap = out_.begin_keyframe();
  const auto handles = static_cast<uint16_t>(real_handles_ != nullptr ? kWithHandles : 0);
  write_keyframe(std::move(keyed), gap ? handles | kAfterGap : handles,
                 [this](Kind kind, uint16_t small, std::span<const std::byte> fixed, std::span<const std::byte> state) {
                   out_.put(kind, small, fixed, state);
                 });
  if (!out_.end_keyframe() && out_.stopped() && tell_full_) tell_full_();
}

void Recorder::look_after_call() {
  for (std::size_t looks = std::min(watched_.size(), kLooksPerCall); looks > 0; --looks) {
    if (next_watched_ >= watched_.size()) next_watched_ = 0;
    if (watched_.empty()) return;
    give(*watched_[next_watched_]);
  }
}

bool Recorder::poll(transport::FrameSink& sink, Nanos now) {
  sink_.set(sink);
  tokens_.clear();
  engine_->rings().poll(kDoorbellsPerPoll, [this](uint32_t token, const transport::DoorbellFrom& from) {
    tokens_.emplace_back(from, token);
  });
  if (tokens_.empty() && again_.empty() && engine_->is_idle(now)) {
    idle_ = now;
    return false;
  }
  begin_call();
  const bool rung = !tokens_.empty() || !again_.empty();
  for (Qp* qp : std::exchange(again_, {})) take_doorbell({qp->cold->spec.doorbell_ring, qp->tx.owner}, qp->qpn);
  for (const auto& [from, token] : tokens_) take_doorbell(from, token);
  out_.put(Kind::poll, 0, now);
  engine_->untape();
  const bool busy = engine_->poll(sink_, now);
  engine_->retape();
  end_call();
  return busy || rung;
}

void Recorder::take_doorbell(const transport::DoorbellFrom& from, uint32_t token) {
  if (Qp* qp = engine_->qps().find(token); qp != nullptr && qp->tx.owner == from.client) {
    ShadowQp& shadow = shadow_of(*qp);
    // Before the rings are read: what is posted from here on rings again.
    if (shadow.real_flag != nullptr) queues::DoorbellReader::clear(*shadow.real_flag);
    take_sends(*qp);
    take_receives(*qp);
    watch(*qp);
  }
  out_.put(Kind::doorbell, 0, DoorbellRecord{.ring = from.id, .token = token, .client = from.client});
  engine_->hand_in(from, token);
}

// --- Met by a call ----------------------------------------------------------------------------------------------

void Recorder::taken(std::span<std::byte> bytes) { out_.put(Kind::taken, 0, std::span<const std::byte>(bytes)); }

uint8_t Recorder::complete(transport::CqWriter& cq, const queues::Cqe& cqe, bool solicited,
                           transport::EngineEvents& events) {
  // A program that polls the completion finds room in its ring.
  if (completed_ == nullptr || completed_->qpn != cqe.qpn) completed_ = engine_->qps().find(cqe.qpn);
  if (completed_ != nullptr) {
    give_slots(*completed_);
    watch(*completed_);
  }
  const auto written = static_cast<uint8_t>(cq.write_itself(cqe, solicited, events));
  out_.put(Kind::completion, written, CompletionRecord{.cq = cq.id(), .cqe = cqe});
  return written;
}

void Recorder::on_async_event(AsyncEventType type, uint32_t object) {
  out_.put(Kind::event, 0, EventRecord{.object = object, .type = static_cast<uint32_t>(type)});
  real_events_->on_async_event(type, object);
}

// The engine's table has not learnt the key.
memory::Translation Recorder::translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length,
                                        AccessFlags needed, uint32_t qpn) {
  auto known = regions_.find(key);
  if (known == regions_.end()) {
    if (const auto region = real_keys_->region(key)) known = learn(key, *region);
  }
  if (known != regions_.end()) return memory::check_access(known->second, pd, address, length, needed);
  ++checks_;
  const memory::Translation place = real_keys_->translate(key, pd, address, length, needed, qpn);
  const bool misaligned = reinterpret_cast<uintptr_t>(place.host) % sizeof(uint64_t) != 0 && length == sizeof(uint64_t);
  if (place.result == memory::AccessResult::ok && place.host != nullptr && !misaligned) return place;
  const bool null = place.host == nullptr;
  out_.put(Kind::check, 0, CheckRecord{std::exchange(checks_, 0), place.result, null, misaligned});
  return place;
}

Recorder::Regions::iterator Recorder::learn(memory::Key key, const memory::RegionSpec& region) {
  keys_.learn(key, region);
  out_.put(
      Kind::region, 0,
      RegionRecord{.key = key,
                   .pd = region.pd,
                   .address = region.address,
                   .length = region.length,
                   .access = region.access.bits(),
                   .alignment = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(region.host) % sizeof(uint64_t))});
  return regions_.emplace(key, region).first;
}

// A replay, too, knows none any more.
void Recorder::forget_regions() {
  for (const auto& [key, region] : regions_) keys_.unlearn(key);
  regions_.clear();
}

memory::AccessResult Recorder::check_key(memory::Key key, memory::PdId pd, AccessFlags needed, uint32_t qpn) {
  const memory::AccessResult result = real_keys_->check_key(key, pd, needed, qpn);
  out_.put(Kind::key, static_cast<uint16_t>(result));
  return result;
}

memory::AccessResult Recorder::invalidate(memory::Key key, memory::PdId pd, uint32_t qpn) {
  const memory::AccessResult result = real_keys_->invalidate(key, pd, qpn);
  if (result == memory::AccessResult::ok && regions_.erase(key) != 0) keys_.unlearn(key);
  out_.put(Kind::key, static_cast<uint16_t>(result));
  return result;
}

bool Recorder::bind(const memory::BindSpec& spec) {
  const bool bound = real_keys_->bind(spec);
  out_.put(Kind::key, bound ? 1 : 0);
  return bound;
}

const transport::AddressHandle* Recorder::find(transport::AddressHandleId id, memory::PdId pd) {
  ++handle_checks_;
  const transport::AddressHandle* real = real_handles_->find(id, pd);
  HandleRecord record{.id = id, .pd = pd, .found = real != nullptr};
  if (real != nullptr) {
    record.loopback = real->loopback;
    record.multicast = real->multicast;
    record.route = real->route;
    record.dst_mac = real->dst_mac.load();
    record.dgid = real->dgid;
    record.flow_label = real->flow_label;
  }
  const auto known = known_handles_.find(id);
  const auto same = [&record](const HandleRecord& old) {
    return old.pd == record.pd && old.found == record.found && old.loopback == record.loopback &&
           old.multicast == record.multicast && old.route == record.route && old.dst_mac == record.dst_mac &&
           old.dgid == record.dgid && old.flow_label == record.flow_label;
  };
  if (known == known_handles_.end() || !same(known->second)) {
    record.after = std::exchange(handle_checks_, 0);
    out_.put(Kind::handle, 0, record);
    known_handles_[id] = record;
  }
  if (real == nullptr) return nullptr;
  // The real one's Ethernet address may have changed again.
  transport::AddressHandle& found = found_handles_[id];
  found = *real;
  found.dst_mac.store(record.dst_mac);
  return &found;
}

}  // namespace uroce::record
