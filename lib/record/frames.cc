#include "record/frames.h"

#include <algorithm>

#include <fmt/format.h>

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

RecordedFrame received(const Record& record, Parts& parts) {
  const auto head = parts.get<FrameRecord>();
  const auto kept = parts.bytes(std::min(head.kept, head.length));
  RecordedFrame frame{.bytes = std::vector<std::byte>(head.length), .in = true, .lacks_icrc = head.lacks_icrc != 0};
  std::ranges::copy(kept, frame.bytes.begin());
  frame.whole = kept.size() == frame.bytes.size();
  if (record.kind == Kind::frames && !frame.whole) set_icrc(frame.bytes, false);
  return frame;
}

RecordedFrame built(const Record& record, Parts& parts) {
  const bool in = record.kind == Kind::local_frames;
  const auto head = read<LocalFrameRecord>(record, parts);
  const auto header = parts.bytes(head.header_length);
  const auto payload = parts.bytes(head.kept);
  return {.bytes = whole_frame(head, header, payload),
          .in = in,
          .whole = head.kept == head.payload_length,
          .lacks_icrc = in};
}

}  // namespace

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
  for (uint32_t left = count_of(record, parts); left > 0; --left) {
    frames.push_back(whole ? received(record, parts) : built(record, parts));
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
