// Frames: those that the engine gets again, and those that it sends.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "record/frames.h"
#include "record/replayer.h"

namespace uroce::record {

using transport::FrameTakers;
using transport::TxFrame;

// --- Received ---------------------------------------------------------------------------------------------------

struct Replayer::Burst {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<transport::RxFrame> frames;
};

Replayer::Burst Replayer::read_frames(const Record& record, Parts& parts, bool icrcs) {
  Burst burst;
  const auto count = parts.get<uint32_t>();
  if (count > kMostFrames) refuse(record, fmt::format("it has {} frames", count));
  const auto bad = bad_icrcs_.find(record.number);
  while (burst.frames.size() < count) {
    const auto head = parts.get<FrameRecord>();
    const auto left = static_cast<uint32_t>(count - burst.frames.size());
    for (RunReader run(record, parts, std::min(head.kept, head.length), left); run.has_more();) {
      const auto kept = run.next(parts);
      const bool wrong = bad != bad_icrcs_.end() && bad->second.contains(static_cast<uint32_t>(burst.frames.size()));
      std::vector<std::byte>& frame = burst.bytes.emplace_back(head.length);
      std::ranges::copy(kept, frame.begin());
      burst.frames.push_back({.bytes = frame, .lacks_icrc = head.lacks_icrc != 0});
      if (icrcs && kept.size() != frame.size()) set_icrc(frame, wrong);
    }
  }
  for (const transport::RxFrame& frame : burst.frames) show(true, frame.bytes);
  report_.frames_in += count;
  return burst;
}

void Replayer::play_frames(const Record& record) {
  const bool raw = record.kind == Kind::raw_frames;
  Parts parts(record);
  const auto now = read<Nanos>(record, parts);
  if (raw && record.small > static_cast<uint16_t>(FrameTakers::sniffers)) refuse(record, "its takers are unknown");
  note_call(now);
  const Burst burst = read_frames(record, parts, !raw);
  engine_->untape();
  if (raw) {
    engine_->on_raw_frames(burst.frames, now, static_cast<FrameTakers>(record.small));
  } else {
    engine_->on_frames(burst.frames, now);
  }
  engine_->retape();
  play_to_end();
}

void Replayer::play_local_frames(const Record& record) {
  Parts parts(record);
  const auto now = read<Nanos>(record, parts);
  note_call(now);
  const auto count = parts.get<uint32_t>();
  if (count > kMostFrames) refuse(record, fmt::format("it has {} frames", count));
  std::vector<TxFrame> frames(count);
  std::vector<transport::PayloadSpan> spans(frames.size());
  for (std::size_t i = 0; i < frames.size();) {
    const auto head = read<LocalFrameRecord>(record, parts);
    if (head.raw != 0) refuse(record, "a frame in it is a raw one");
    RunReader run(record, parts, head.header_length, static_cast<uint32_t>(frames.size() - i));
    const auto kept = parts.bytes(head.kept);
    const bool whole = kept.size() == head.payload_length;
    for (; run.has_more(); ++i) {
      TxFrame& frame = frames[i];
      std::ranges::copy(run.next(parts), frame.header.begin());
      spans[i] = {whole ? kept.data() : scratch_.data(), head.payload_length};
      frame.payload = &spans[i];
      frame.payload_length = head.payload_length;
      frame.header_length = head.header_length;
      frame.payload_spans = head.payload_length != 0 ? 1 : 0;
      frame.pad = head.pad;
      frame.l3_offset = head.l3_offset;
      frame.ip_version = head.ip_version;
      frame.loopback = head.loopback != 0;
      show_sent(frame, true);
    }
  }
  report_.frames_in += frames.size();
  engine_->untape();
  engine_->on_local_frames(frames, now);
  engine_->retape();
  play_to_end();
}

// --- Sent -------------------------------------------------------------------------------------------------------

std::size_t Replayer::room() { return static_cast<std::size_t>(Parts(take(Kind::room)).get<uint64_t>()); }

// `at`: of the burst.
void Replayer::compare_sent(const Record& record, const TxFrame& frame, std::size_t at, const LocalFrameRecord& was,
                            std::span<const std::byte> header, std::span<const std::byte> payload) const {
  const LocalFrameRecord is = record_of(frame);
  const bool same = was == is && (is.kept == 0 || std::memcmp(payload.data(), frame.payload->data, is.kept) == 0);
  if (same && std::ranges::equal(header, std::span(frame.header).first(frame.header_length))) return;
  diverge(record, fmt::format("frame {} of the burst differs: {} bytes of headers and {} of payload; recorded were {} "
                              "and {}",
                              at + 1, is.header_length, is.payload_length, was.header_length, was.payload_length));
}

void Replayer::send(std::span<const TxFrame> frames) {
  const Record record = take(Kind::sent);
  Parts parts(record);
  parts.get<Nanos>();
  const auto count = parts.get<uint32_t>();
  if (count != frames.size()) {
    diverge(record, fmt::format("the engine sends a burst of {} frames; the recording has {}", frames.size(), count));
  }
  for (std::size_t i = 0; i < frames.size();) {
    const auto was = parts.get<LocalFrameRecord>();
    RunReader run(record, parts, was.header_length, static_cast<uint32_t>(frames.size() - i));
    const auto payload = parts.bytes(was.kept);
    for (; run.has_more(); ++i) {
      compare_sent(record, frames[i], i, was, run.next(parts), payload);
      ++report_.frames_out;
      show_sent(frames[i], false);
    }
  }
  play_handed_over();
  engine_->untape();
}

void Replayer::show(bool in, std::span<const std::byte> frame) {
  ++passing_;
  if (watch_ == nullptr || stops_) return;
  stops_ = !watch_->on_frame({.number = passing_, .in = in, .now = now_, .frame = frame}, *engine_);
}

void Replayer::show_sent(const TxFrame& frame, bool in) {
  if (watch_ == nullptr) {
    ++passing_;
    return;
  }
  const LocalFrameRecord record = record_of(frame);
  const auto payload = record.kept == 0 ? std::span<const std::byte>() : std::span(frame.payload->data, record.kept);
  show(in, whole_frame(record, std::span(frame.header).first(frame.header_length), payload));
}

}  // namespace uroce::record
