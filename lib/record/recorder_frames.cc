// Frames: what the engine gets, and what it sends.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "record/alike.h"
#include "record/recorder.h"

namespace uroce::record {
namespace {

// Bytes of a raw frame that rules look at, and more than any header has.
constexpr std::size_t kRawBytes = 128;

Run run_of_received(std::span<const transport::RxFrame> frames) {
  const std::span<const std::byte> first = frames.front().bytes;
  const bool lacks_icrc = frames.front().lacks_icrc;
  return run_of(kept_of(first), frames.size(), first.data(), [=](const auto& shared, std::size_t i) {
    const transport::RxFrame& frame = frames[i];
    return frame.bytes.size() == first.size() && frame.lacks_icrc == lacks_icrc && shared.matches(frame.bytes.data());
  });
}

// All that record_of() has of a frame, and some more. A raw one has no IP version.
Block shape_of(const transport::TxFrame& frame) {
  static_assert(offsetof(transport::TxFrame, icrc_at) + 1 == offsetof(transport::TxFrame, payload_length) + 16);
  return load_block(reinterpret_cast<const std::byte*>(&frame.payload_length));
}

Run run_of_sent(std::span<const transport::TxFrame> frames) {
  const transport::TxFrame& first = frames.front();
  Kept kept{first.header_length};
  if (!first.raw && kept_payload_of(first) == 0) {
    kept.bth = first.l3_offset + (first.ip_version == 6 ? wire::kIpv6Bytes : wire::kIpv4Bytes) + wire::kUdpBytes;
  }
  const Block shape = shape_of(first);
  return run_of(kept, frames.size(), first.header.data(), [=](const auto& shared, std::size_t i) {
    return shared.matches(frames[i].header.data(), shape_of(frames[i]) ^ shape);
  });
}

}  // namespace

// --- Received ---------------------------------------------------------------------------------------------------

void Recorder::on_frames(std::span<const transport::RxFrame> frames, Nanos now) {
  begin_call();
  runs_.clear();
  std::size_t bytes = 0;
  uint32_t qpn = 0;
  for (auto left = frames; !left.empty(); left = left.subspan(runs_.back().frames)) {
    const Run& run = runs_.emplace_back(run_of_received(left));
    bytes += sizeof(FrameRecord) + sizeof(RunRecord) + run.kept.bytes + run.rest_bytes();
    const std::byte* const bth = left.front().bytes.data() + run.kept.bth;
    const uint32_t to = run.kept.bth != 0 ? load_be32(bth + 4) & 0xffffff : wire::peek(left.front().bytes).dest_qpn;
    if (to != std::exchange(qpn, to)) meet_receiver(to);
  }
  write_received(Kind::frames, 0, frames, bytes, now);
  constexpr auto bad = static_cast<std::size_t>(wire::Drop::icrc);
  const uint64_t dropped = engine_->counters().drops[bad].get();
  engine_->untape();
  engine_->on_frames(frames, now);
  engine_->retape();
  if (engine_->counters().drops[bad].get() != dropped) [[unlikely]]
    check_icrcs(frames);
  end_call();
}

// Runs are in `runs_`; `bytes`: of their records.
void Recorder::write_received(Kind kind, uint16_t small, std::span<const transport::RxFrame> frames, std::size_t bytes,
                              Nanos now) {
  std::byte* to = out_.start(sizeof now + sizeof(uint32_t) + bytes);
  if (to == nullptr) return;
  to = Writer::append(to, now);
  to = Writer::append(to, static_cast<uint32_t>(frames.size()));
  for (const Run& run : runs_) {
    const transport::RxFrame& first = frames.front();
    const FrameRecord record{.length = static_cast<uint16_t>(first.bytes.size()),
                             .kept = static_cast<uint16_t>(run.kept.bytes),
                             .lacks_icrc = first.lacks_icrc ? uint8_t{1} : uint8_t{0}};
    to = Writer::append(to, record);
    to = Writer::append(to, run.record);
    to = Writer::append(to, first.bytes.first(run.kept.bytes));
    to = write_alike(to, run, [frames](std::size_t i) { return frames[i].bytes.data(); });
    frames = frames.subspan(run.frames);
  }
  out_.finish(kind, small, to);
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
  runs_.clear();
  std::size_t bytes = 0;
  for (const transport::RxFrame& frame : frames) {
    const Run& run = runs_.emplace_back(Run{.kept = {std::min(frame.bytes.size(), kRawBytes)}});
    bytes += sizeof(FrameRecord) + sizeof(RunRecord) + run.kept.bytes;
  }
  write_received(Kind::raw_frames, static_cast<uint16_t>(takers), frames, bytes, now);
  engine_->untape();
  engine_->on_raw_frames(frames, now, takers);
  engine_->retape();
  end_call();
}

// --- Sent -------------------------------------------------------------------------------------------------------

void Recorder::write_sent(Kind kind, std::span<const transport::TxFrame> frames, Nanos now) {
  runs_.clear();
  std::size_t bytes = sizeof now + sizeof(uint32_t);
  for (auto left = frames; !left.empty(); left = left.subspan(runs_.back().frames)) {
    const Run& run = runs_.emplace_back(run_of_sent(left));
    bytes += sizeof(LocalFrameRecord) + sizeof(RunRecord) + run.kept.bytes + kMostKept + run.rest_bytes();
  }
  std::byte* to = out_.start(bytes);
  if (to == nullptr) return;
  to = Writer::append(to, now);
  to = Writer::append(to, static_cast<uint32_t>(frames.size()));
  for (const Run& run : runs_) {
    const transport::TxFrame& first = frames.front();
    const LocalFrameRecord record = record_of(first);
    to = Writer::append(to, record);
    to = Writer::append(to, run.record);
    to = Writer::append(to, std::span(first.header).first(first.header_length));
    if (record.kept != 0) to = Writer::append(to, std::span(first.payload->data, record.kept));
    to = write_alike(to, run, [frames](std::size_t i) { return frames[i].header.data(); });
    frames = frames.subspan(run.frames);
  }
  out_.finish(kind, 0, to);
}

std::size_t Recorder::Sink::room() {
  const std::size_t room = real_->room();
  recorder_.out_.put(Kind::room, 0, static_cast<uint64_t>(room));
  return room;
}

void Recorder::Sink::send(std::span<const transport::TxFrame> frames) {
  transport::Engine& engine = *recorder_.engine_;
  recorder_.write_sent(Kind::sent, frames, engine.now());
  // A frame for this thread comes back within.
  engine.retape();
  real_->send(frames);
  recorder_.out_.put(Kind::end, 0);
  engine.untape();
}

}  // namespace uroce::record
