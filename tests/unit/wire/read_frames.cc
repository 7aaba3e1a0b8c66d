// Parses each frame of a capture, and prints a line of key=value for each: what wire::parse() read in it, or the reason
// of its refusal. `passes` lists the bytes, counted from the IP header, of which parse() does not mind a flipped bit.
//
// Usage: read_frames CAPTURE
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/support/pcap_file.h"
#include "wire/drop.h"
#include "wire/packet.h"

namespace uroce {
namespace {

/// The frame is as before when this returns.
std::vector<std::size_t> bytes_that_may_change(std::span<std::byte> frame, const wire::Packet& packet) {
  std::vector<std::size_t> found;
  const std::size_t end = packet.bytes().size();
  for (std::size_t i = packet.l3_offset; i < end; ++i) {
    frame[i] ^= std::byte{1};
    if (wire::parse(frame)) found.push_back(i - packet.l3_offset);
    frame[i] ^= std::byte{1};
  }
  return found;
}

std::string line_of(test::Bytes& frame) {
  const auto packet = wire::parse(frame);
  if (!packet) return fmt::format("drop={}", wire::name(packet.error()));
  const std::size_t end = packet->bytes().size();
  return fmt::format(
      "opcode={:#x} destqp={:#x} psn={:#x} pad={:#x} payload={:#x} udp_length={:#x} icrc={:#x} passes={}",
      static_cast<unsigned>(packet->bth.opcode), packet->bth.dest_qpn, packet->bth.psn.value(), packet->bth.pad,
      packet->payload.size(), end - packet->bth_offset + wire::kUdpBytes,
      load_be32(frame.data() + end - wire::kIcrcBytes), fmt::join(bytes_that_may_change(frame, *packet), ","));
}

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: read_frames CAPTURE\n");
    return 2;
  }
  try {
    for (uroce::test::Bytes& frame : uroce::test::read_pcap(argv[1])) fmt::print("{}\n", uroce::line_of(frame));
  } catch (const std::exception& error) {
    fmt::print(stderr, "read_frames: {}\n", error.what());
    return 1;
  }
  return 0;
}
