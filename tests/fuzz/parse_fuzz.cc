// The frame parser, and what receive rules look at, against arbitrary bytes. An accepted packet must lie inside the
// frame, and must come back when it is encoded and parsed again. The ICRC is skipped: a fuzzer would never get past it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/support/encode.h"
#include "tests/support/packet_text.h"
#include "wire/flow_key.h"
#include "wire/header_prediction.h"
#include "wire/packet.h"
#include "wire/plain_packet.h"
#include "wire/roce_search.h"

namespace {

using namespace uroce;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_views(std::span<const std::byte> frame, const wire::Packet& packet) {
  const std::byte* const end = frame.data() + frame.size();
  require(packet.frame == frame.data());
  require(packet.bth_offset > packet.l3_offset && packet.l3_offset >= 14);
  const std::byte* const headers_end = packet.frame + packet.bth_offset + packet.op().header_length;
  require(packet.payload.data() == headers_end);
  require(packet.payload.size() <= static_cast<std::size_t>(end - headers_end));
  require(packet.payload.size() + packet.bth.pad + wire::kIcrcBytes <= static_cast<std::size_t>(end - headers_end));
  require((packet.payload.size() + packet.bth.pad) % 4 == 0);
}

void check_round_trip(const wire::Packet& packet) {
  static std::array<std::byte, 66000> again;
  const std::size_t n = test::encode(again, packet, test::route_of(packet), packet.payload, test::framing_of(packet));
  require(n != 0);
  const auto parsed = wire::parse(std::span(again).first(n), wire::Icrc::check);
  require(parsed.has_value());
  require(wire::to_text(*parsed, true) == wire::to_text(packet, true));
  require(std::memcmp(parsed->payload.data(), packet.payload.data(), packet.payload.size()) == 0);
  const auto text = test::from_text(wire::to_text(packet));
  require(text.has_value() && test::to_text(*text) == wire::to_text(packet));
}

// A frame that ports steer as RoCE is found as such where a program sends it, from its beginning alone.
void check_rules(std::span<const std::byte> frame, const wire::Peek& peek) {
  const auto key = wire::flow_key(frame), again = wire::flow_key(frame);
  require(std::memcmp(key.bytes.data(), again.bytes.data(), key.bytes.size()) == 0);
  const bool whole = frame.size() <= wire::kRoceSearchBytes;
  const auto head = whole ? frame : frame.first(wire::kRoceSearchBytes);
  const bool may = wire::may_carry_roce(head, whole);
  require(may || peek.kind != wire::Peek::Kind::roce);
}

// The frame after this one in its flow may be the same.
void check_prediction(std::span<const std::byte> frame, const wire::Packet& plain) {
  wire::HeaderPrediction prediction;
  prediction.learn(frame, plain);
  require(prediction.takes(frame, wire::Icrc::skip) == (plain.ip_version == 4));
  if (plain.ip_version == 4) require(wire::to_text(prediction.packet(), true) == wire::to_text(plain, true));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::span<const std::byte> frame(reinterpret_cast<const std::byte*>(data), size);
  const wire::Peek peek = wire::peek(frame);
  check_rules(frame, peek);
  const auto packet = wire::parse(frame, wire::Icrc::skip);
  wire::Packet plain;
  const bool is_plain =
      wire::parse_plain(frame, wire::Icrc::skip, plain) || wire::parse_plain_datagram(frame, wire::Icrc::skip, plain);
  require(!is_plain || (packet && wire::to_text(plain, true) == wire::to_text(*packet, true)));
  if (!packet) return 0;
  if (is_plain) check_prediction(frame, plain);
  require(peek.kind == wire::Peek::Kind::roce && peek.dest_qpn == packet->bth.dest_qpn);
  check_views(frame, *packet);
  check_round_trip(*packet);
  return 0;
}
