#include "record/recorder.h"

#include <algorithm>
#include <cstring>

#include "record/keyframe.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"
#include "wire/opcode.h"

namespace uroce::record {
namespace {

using transport::Engine;
using transport::Qp;
using transport::Srq;

// Queue pairs that are looked at after a call: those of a busy program, and some of many.
constexpr std::size_t kLooksPerCall = 64;
constexpr uint32_t kDoorbellsPerPoll = 64;
// Bytes of a raw frame that rules look at, and more than any header has.
constexpr std::size_t kRawBytes = 128;

/// How many bytes at the beginning of a frame matter: not the payload of a usual packet.
std::size_t kept_of(std::span<const std::byte> frame) {
  constexpr std::size_t kLeast =
      wire::kEthernetBytes + wire::kVlanBytes + wire::kIpv6Bytes + wire::kUdpBytes + wire::Bth::kBytes;
  if (frame.size() <= kLeast) return frame.size();
  std::size_t at = wire::kEthernetBytes;
  if (frame[12] == std::byte{0x81}) at += wire::kVlanBytes;
  if (frame[at] == std::byte{0x45}) {
    at += wire::kIpv4Bytes;
  } else if ((frame[at] >> 4) == std::byte{6} && frame[at + 6] == std::byte{17}) {
    at += wire::kIpv6Bytes;
  } else {
    return frame.size();
  }
  at += wire::kUdpBytes;
  const auto opcode = static_cast<uint8_t>(frame[at]);
  // HELLO and SACK have payload that the engine reads.
  if (opcode >= 0xc0) return frame.size();
  return std::min(frame.size(), at + wire::info(static_cast<wire::Opcode>(opcode)).header_length);
}

/// Of a raw frame (`whole`) more than that.
std::size_t kept_of(std::span<const std::byte> frame, bool whole) {
  return whole ? std::min(frame.size(), kRawBytes) : kept_of(frame);
}

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

void Recorder::write_frames(Kind kind, uint16_t small, std::span<const transport::RxFrame> frames, Nanos now,
                            bool whole) {
  std::size_t most = sizeof now + sizeof(uint32_t);
  for (const transport::RxFrame& frame : frames) most += sizeof(FrameRecord) + frame.bytes.size();
  // Most of it is payload, which is not kept.
  if (!out_.fits(most)) [[unlikely]] {
    for (const transport::RxFrame& frame : frames) most -= frame.bytes.size() - kept_of(frame.bytes, whole);
  }
  std::byte* to = out_.start(most);
  if (to == nullptr) return;
  to = Writer::append(to, now);
  to = Writer::append(to, static_cast<uint32_t>(frames.size()));
  for (const transport::RxFrame& frame : frames) {
    const std::size_t kept = kept_of(frame.bytes, whole);
    const FrameRecord record{.length = static_cast<uint16_t>(frame.bytes.size()),
                             .kept = static_cast<uint16_t>(kept),
                             .lacks_icrc = frame.lacks_icrc ? uint8_t{1} : uint8_t{0}};
    to = Writer::append(to, record);
    to = Writer::append(to, frame.bytes.first(kept));
  }
  out_.finish(kind, small, to);
}

void Recorder::write_sent(Kind kind, std::span<const transport::TxFrame> frames, Nanos now) {
  std::byte* to = out_.start(sizeof now + sizeof(uint32_t) +
                             frames.size() * (sizeof(LocalFrameRecord) + sizeof(wire::HeaderBytes) + kMostKept));
  if (to == nullptr) return;
  to = Writer::append(to, now);
  to = Writer::append(to, static_cast<uint32_t>(frames.size()));
  for (const transport::TxFrame& frame : frames) {
    const LocalFrameRecord record = record_of(frame);
    to = Writer::append(to, record);
    to = Writer::append(to, std::span(frame.header).first(frame.header_length));
    if (record.kept != 0) to = Writer::append(to, std::span(frame.payload->data, record.kept));
  }
  out_.finish(kind, 0, to);
}

void Recorder::on_frames(std::span<const transport::RxFrame> frames, Nanos now) {
  begin_call();
  uint32_t qpn = 0;
  for (const transport::RxFrame& frame : frames) {
    const uint32_t to = wire::peek(frame.bytes).dest_qpn;
    if (to != std::exchange(qpn, to)) meet_receiver(to);
  }
  write_frames(Kind::frames, 0, frames, now, false);
  constexpr auto bad = static_cast<std::size_t>(wire::Drop::icrc);
  const uint64_t dropped = engine_->counters().drops[bad].get();
  engine_->untape();
  engine_->on_frames(frames, now);
  engine_->retape();
  if (engine_->counters().drops[bad].get() != dropped) [[unlikely]]
    check_icrcs(frames);
  end_call();
}

// The record has no payload, from which a replay could tell.
void Recorder::check_icrcs(std::span<const transport::RxFrame> frames) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].lacks_icrc) continue;
    const auto packet = wire::parse(frames[i].bytes);
    if (!packet && packet.error() == wire::Drop::icrc) out_.put(Kind::bad_icrc, static_cast<uint16_t>(i));
  }
}

void Recorder::on_local_frames(std::span<const transport::TxFrame> frames, Nanos now) {
  begin_call();
  for (const transport::TxFrame& frame : frames) {
    meet_receiver(wire::peek(std::span(frame.header).first(frame.header_length)).dest_qpn);
  }
  write_sent(Kind::local_frames, frames, now);
  engine_->untape();
  engine_->on_local_frames(frames, now);
  engine_->retape();
  end_call();
}

void Recorder::on_raw_frames(std::span<const transport::RxFrame> frames, Nanos now, transport::FrameTakers takers) {
  begin_call();
  meet_all(QpType::raw_packet);
  write_frames(Kind::raw_frames, static_cast<uint16_t>(takers), frames, now, true);
  engine_->untape();
  engine_->on_raw_frames(frames, now, takers);
  engine_->retape();
  end_call();
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

std::size_t Recorder::Sink::room() {
  const std::size_t room = real_->room();
  recorder_.out_.put(Kind::room, 0, static_cast<uint64_t>(room));
  return room;
}

void Recorder::Sink::send(std::span<const transport::TxFrame> frames) {
  Engine& engine = *recorder_.engine_;
  recorder_.write_sent(Kind::sent, frames, engine.now());
  // A frame for this thread comes back within.
  engine.retape();
  real_->send(frames);
  recorder_.out_.put(Kind::end, 0);
  engine.untape();
}

// --- Met by a call ----------------------------------------------------------------------------------------------

void Recorder::taken(std::span<std::byte> bytes) { out_.put(Kind::taken, 0, std::span<const std::byte>(bytes)); }

uint8_t Recorder::complete(transport::CqWriter& cq, const queues::Cqe& cqe, bool solicited,
                           transport::EngineEvents& events) {
  // A program that polls the completion finds room in its ring.
  if (Qp* qp = engine_->qps().find(cqe.qpn); qp != nullptr) {
    give_slots(*qp);
    watch(*qp);
  }
  const auto written = static_cast<uint8_t>(cq.write_itself(cqe, solicited, events));
  out_.put(Kind::completion, written, CompletionRecord{.cq = cq.id(), .cqe = cqe});
  return written;
}

void Recorder::on_async_event(AsyncEventType type, uint32_t object) {
  out_.put(Kind::event, 0, EventRecord{.object = object, .type = static_cast<uint32_t>(type)});
  real_events_->on_async_event(type, object);
}

memory::Translation Recorder::translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length,
                                        AccessFlags needed, uint32_t qpn) {
  ++checks_;
  const memory::Translation place = real_keys_->translate(key, pd, address, length, needed, qpn);
  const bool misaligned = reinterpret_cast<uintptr_t>(place.host) % sizeof(uint64_t) != 0 && length == sizeof(uint64_t);
  if (place.result == memory::AccessResult::ok && place.host != nullptr && !misaligned) [[likely]]
    return place;
  const bool null = place.host == nullptr;
  out_.put(Kind::check, 0, CheckRecord{std::exchange(checks_, 0), place.result, null, misaligned});
  return place;
}

memory::AccessResult Recorder::check_key(memory::Key key, memory::PdId pd, AccessFlags needed, uint32_t qpn) {
  const memory::AccessResult result = real_keys_->check_key(key, pd, needed, qpn);
  out_.put(Kind::key, static_cast<uint16_t>(result));
  return result;
}

memory::AccessResult Recorder::invalidate(memory::Key key, memory::PdId pd, uint32_t qpn) {
  const memory::AccessResult result = real_keys_->invalidate(key, pd, qpn);
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
