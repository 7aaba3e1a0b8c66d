#include "tests/support/frame_capture.h"

#include <algorithm>

#include "base/bytes.h"
#include "tests/support/memory.h"
#include "wire/icrc.h"

namespace uroce::test {

namespace {

std::size_t frame_bytes(const transport::TxFrame& frame) {
  if (frame.raw) return std::size_t{frame.header_length} + frame.payload_length;
  return std::size_t{frame.header_length} + frame.payload_length + frame.pad + wire::kIcrcBytes;
}

}  // namespace

namespace {

std::size_t serialize_raw(const transport::TxFrame& frame, std::span<std::byte> out) {
  require(frame.payload_length == 0 || frame.header_length == frame.header.size(), "payload behind a short header");
  require(frame_bytes(frame) <= out.size(), "a frame longer than its place");
  std::byte* at = std::ranges::copy(std::span(frame.header.data(), frame.header_length), out.data()).out;
  for (uint8_t i = 0; i < frame.payload_spans; ++i) {
    at = std::copy_n(frame.payload[i].data, frame.payload[i].length, at);
  }
  require(static_cast<std::size_t>(at - out.data()) == frame_bytes(frame),
          "payload_length is not the sum of the spans");
  return frame_bytes(frame);
}

}  // namespace

std::size_t serialize_to(const transport::TxFrame& frame, std::span<std::byte> out) {
  if (frame.raw) return serialize_raw(frame, out);
  require(frame.header_length <= frame.header.size(), "a header longer than its array");
  require(frame.pad == ((4 - frame.payload_length % 4) & 3), "pad does not fill the payload to four bytes");
  require(frame_bytes(frame) <= out.size(), "a frame longer than its place");
  const std::span<const std::byte> header(frame.header.data(), frame.header_length);
  wire::IcrcState icrc = frame.begin_icrc();
  std::byte* at = std::ranges::copy(header, out.data()).out;
  uint32_t payload = 0;
  for (uint8_t i = 0; i < frame.payload_spans; ++i) {
    const transport::PayloadSpan& span = frame.payload[i];
    payload += span.length;
    require(payload <= frame.payload_length, "payload_length is less than the sum over the spans");
    icrc.copy(at, {span.data, span.length});
    at += span.length;
  }
  require(payload == frame.payload_length, "payload_length is not the sum over the spans");
  icrc.finish(at, frame.pad);
  return frame_bytes(frame);
}

Frame serialize(const transport::TxFrame& frame) {
  Frame bytes(frame_bytes(frame));
  serialize_to(frame, bytes);
  return bytes;
}

void FrameCapture::send(std::span<const transport::TxFrame> frames) {
  require(frames.size() <= room_, "the engine sent more frames than the sink had room for");
  if (room_ != SIZE_MAX) room_ -= frames.size();
  if (local_ && frames_.empty() && local_(frames)) return;
  for (const transport::TxFrame& frame : frames)
    frames_.push_back({serialize(frame), frame.loopback, frame.raw, frame.raw_receiver});
}

}  // namespace uroce::test
