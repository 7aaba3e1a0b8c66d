// Super-frames of arbitrary bytes: the header of the packet socket, then the frame. An accepted one must lie inside the
// frame. Its segments, joined again, must be accepted again and have the same parts.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "pmd_glue/kif/super_frame.h"

namespace {

using namespace uroce::glue::kif;

void require(bool condition) {
  if (!condition) std::abort();
}

using Segments = std::vector<std::vector<std::byte>>;

Segments take_apart(std::span<const std::byte> frame, const Split& parts) {
  Segments out;
  const auto payload = frame.subspan(parts.headers.length);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < parts.segments; ++i) {
    const auto segment = payload.subspan(std::size_t{i} * parts.segment_bytes, parts.bytes_of(i));
    std::vector<std::byte> one(parts.headers.length + segment.size());
    const uint16_t id = segment_id(frame, payload.first(parts.bytes_of(0)), segment, i);
    SegmentHeaders(frame, parts).write(one.data(), i, id);
    std::memcpy(one.data() + parts.headers.length, segment.data(), segment.size());
    require(udp_headers(one).has_value());
    taken += parts.bytes_of(i);
    out.push_back(std::move(one));
  }
  require(taken == parts.payload_bytes && parts.headers.length + taken == frame.size());
  return out;
}

void join_again(const Segments& segments) {
  FrameRun run(segments[0], static_cast<uint32_t>(segments[0].size()));
  require(run.header_bytes() != 0);
  std::vector<std::byte> whole(run.header_bytes());
  const auto append = [&](const std::vector<std::byte>& frame) {
    whole.insert(whole.end(), frame.begin() + run.header_bytes(), frame.end());
  };
  append(segments[0]);
  for (std::size_t i = 1; i < segments.size() && run.add(segments[i], static_cast<uint32_t>(segments[i].size())); ++i) {
    append(segments[i]);
  }
  const VnetHeader vnet = run.finish(whole.data());
  const auto parts = split(vnet, whole, static_cast<uint32_t>(whole.size()));
  // A frame alone may be too short for a segment.
  require(parts.has_value() || (run.segments() == 1 && parts.error() == SuperFault::segment));
  require(!parts || parts->segments == run.segments());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  VnetHeader vnet;
  if (size < sizeof vnet) return 0;
  std::memcpy(&vnet, data, sizeof vnet);
  // A copy of the exact size, so that a sanitizer sees a read beyond it.
  const std::vector<std::byte> frame(reinterpret_cast<const std::byte*>(data) + sizeof vnet,
                                     reinterpret_cast<const std::byte*>(data) + size);
  const auto parts = split(vnet, frame, static_cast<uint32_t>(frame.size()));
  if (!parts) return 0;
  require(parts->segment_bytes <= parts->payload_bytes);
  require(parts->segments >= 1 && parts->segments <= kMaxReceivedSegments);
  join_again(take_apart(frame, *parts));
  return 0;
}
