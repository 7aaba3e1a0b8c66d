#include "record/frames.h"

#include <algorithm>

#include <fmt/format.h>

#include "record/alike.h"
#include "record/checks.h"
#include "wire/icrc.h"

namespace uroce::record {
namespace {

// Frames longer than any port's.
constexpr std::size_t kMostFrame = 65535;
// An ICRC covers as much of IPv6 at least; no RoCE frame is shorter.
constexpr std::size_t kLeastFrame = 60;

uint32_t count_of(const Record& record, Parts& parts) {
  const auto count = parts.get<uint32_t>();
  if (count > kMostFrames) refuse(record, fmt::format("it has {} frames", count));
  return count;
}

void add_received(const Record& record, Parts& parts, uint32_t left, std::vector<RecordedFrame>& frames) {
  const auto head = parts.get<FrameRecord>();
  for (RunReader run(record, parts, std::min(head.kept, head.length), left); run.has_more();) {
    const auto kept = run.next(parts);
    RecordedFrame& frame = frames.emplace_back(std::vector<std::byte>(head.length), true, false, head.lacks_icrc != 0);
    std::ranges::copy(kept, frame.bytes.begin());
    frame.whole = kept.size() == frame.bytes.size();
    if (record.kind == Kind::frames && !frame.whole) set_icrc(frame.bytes, false);
  }
}

void add_built(const Record& record, Parts& parts, uint32_t left, std::vector<RecordedFrame>& frames) {
  const bool in = record.kind == Kind::local_frames;
  const auto head = read<LocalFrameRecord>(record, parts);
  RunReader run(record, parts, head.header_length, left);
  const auto payload = parts.bytes(head.kept);
  while (run.has_more()) {
    frames.push_back({.bytes = whole_frame(head, run.next(parts), payload),
                      .in = in,
                      .whole = head.kept == head.payload_length,
                      .lacks_icrc = in});
  }
}

}  // namespace

RunReader::RunReader(const Record& record, Parts& parts, std::size_t kept, uint32_t left)
    : run_(parts.get<RunRecord>()) {
  const auto first = parts.bytes(kept);
  bytes_.assign(first.begin(), first.end());
  const bool fits = run_.tail <= kept && (run_.middle == 0 || run_.middle + kMiddleBytes <= kept);
  if (run_.alike < left && (run_.alike == 0 || fits)) return;
  refuse(record, fmt::format("{} frames are like one of {} bytes, of the {} that it has", run_.alike, kept, left));
}

std::span<const std::byte> RunReader::next(Parts& parts) {
  if (next_++ == 0) return bytes_;
  if (run_.middle != 0) std::ranges::copy(parts.bytes(kMiddleBytes), bytes_.begin() + run_.middle);
  std::ranges::copy(parts.bytes(run_.tail), bytes_.end() - run_.tail);
  return bytes_;
}

void set_icrc(std::span<std::byte> frame, bool wrong) {
  if (frame.size() < kLeastFrame) return;
  const std::size_t l3 = frame[12] == std::byte{0x81} ? 18 : 14;
  const bool ipv4 = (frame[l3] >> 4) == std::byte{4};
  const std::size_t total = ipv4 ? load_be16(frame.data() + l3 + 2) : 40u + load_be16(frame.data() + l3 + 4);
  if (total < kLeastFrame || l3 + total > frame.size()) return;
  const uint32_t icrc = wire::icrc_of(frame.subspan(l3, total - wire::kIcrcBytes), ipv4 ? 4 : 6);
  store_le32(frame.data() + l3 + total - wire::kIcrcBytes, wrong ? ~icrc : icrc);
}

std::vector<std::byte> whole_frame(const LocalFrameRecord& record, std::span<const std::byte> header,
                                   std::span<const std::byte> payload) {
  const bool raw = record.raw != 0;
  const std::size_t tail = raw ? 0 : record.pad + wire::kIcrcBytes;
  const std::size_t length = std::min(header.size() + record.payload_length + tail, kMostFrame);
  std::vector<std::byte> whole(std::max(length, header.size() + payload.size() + tail));
  std::ranges::copy(header, whole.begin());
  std::ranges::copy(payload, whole.begin() + static_cast<std::ptrdiff_t>(header.size()));
  if (!raw) {
    const std::size_t end = whole.size() - wire::kIcrcBytes;
    const auto covered = std::span(whole).subspan(record.l3_offset, end - record.l3_offset);
    store_le32(whole.data() + end, wire::icrc_of(covered, record.ip_version));
  }
  return whole;
}

std::vector<RecordedFrame> frames_of(const Record& record) {
  std::vector<RecordedFrame> frames;
  const bool whole = record.kind == Kind::frames || record.kind == Kind::raw_frames;
  if (!whole && record.kind != Kind::local_frames && record.kind != Kind::sent) return frames;
  Parts parts(record);
  parts.get<Nanos>();
  for (const uint32_t count = count_of(record, parts); frames.size() < count;) {
    const auto left = static_cast<uint32_t>(count - frames.size());
    whole ? add_received(record, parts, left, frames) : add_built(record, parts, left, frames);
  }
  return frames;
}

Nanos time_of(const Record& record, Nanos otherwise) {
  switch (record.kind) {
    case Kind::frames:
    case Kind::local_frames:
    case Kind::raw_frames:
    case Kind::poll:
    case Kind::idle:
    case Kind::sent:
    case Kind::attach:
    case Kind::detach:
    case Kind::modify:
    case Kind::adopt:
    case Kind::adopt_unknown:
    case Kind::attach_ring:
    case Kind::detach_ring:
    case Kind::attach_srq:
    case Kind::detach_srq:
    case Kind::gids:
    case Kind::whole_writes:
    case Kind::redirect: return read<Nanos>(record);
    default: return otherwise;
  }
}

}  // namespace uroce::record
