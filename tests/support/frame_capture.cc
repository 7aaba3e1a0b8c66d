#include "tests/support/frame_capture.h"

#include "base/bytes.h"
#include "tests/support/memory.h"
#include "wire/icrc.h"

namespace uroce::test {

Frame serialize(const transport::TxFrame& frame) {
  require(frame.header_length <= frame.header.size(), "a header longer than its array");
  require(frame.pad == ((4 - frame.payload_length % 4) & 3), "pad does not fill the payload to four bytes");
  const std::span<const std::byte> header(frame.header.data(), frame.header_length);
  wire::IcrcState icrc = wire::IcrcState::begin(header.subspan(frame.l3_offset), frame.ip_version);
  Frame bytes(header.begin(), header.end());
  for (uint8_t i = 0; i < frame.payload_spans; ++i) {
    const transport::PayloadSpan& span = frame.payload[i];
    bytes.insert(bytes.end(), span.data, span.data + span.length);
  }
  require(bytes.size() == std::size_t{frame.header_length} + frame.payload_length,
          "payload_length is not the sum over the spans");
  bytes.resize(bytes.size() + frame.pad);
  icrc.update(std::span(bytes).subspan(frame.header_length));
  bytes.resize(bytes.size() + wire::kIcrcBytes);
  store_le32(bytes.data() + bytes.size() - wire::kIcrcBytes, icrc.value());
  return bytes;
}

void FrameCapture::send(std::span<const transport::TxFrame> frames) {
  require(frames.size() <= room_, "the engine sent more frames than the sink had room for");
  if (room_ != SIZE_MAX) room_ -= frames.size();
  for (const transport::TxFrame& frame : frames) frames_.push_back({serialize(frame), frame.loopback});
}

}  // namespace uroce::test
