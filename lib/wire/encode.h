// Builds frames from values: the inverse of parse(). For tests, packet scripts and rare frames; engines write
// headers from a RouteTemplate and leave the ICRC to the sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/packet.h"

namespace uroce::wire {

/// Writes the BTH and the extended headers of `packet.bth.opcode`, packet.op().header_length bytes, at `out`.
/// Reserved bytes (those of a CNP) are zero. The opcode must be a defined one. Returns the bytes written.
std::size_t store_headers(std::byte* out, const Packet& packet);

/// What a frame carries below the BTH that its Route does not fix.
struct Framing {
  uint16_t udp_source = 0xc000;
  uint16_t udp_checksum = 0;  ///< as given, not computed; the ICRC does not cover it
  uint16_t ipv4_id = 0;
  bool dont_fragment = true;
};

/// The Route and Framing with which a parsed packet's frame was sent.
Route route_of(const Packet& packet);
Framing framing_of(const Packet& packet);

/// Builds a complete frame, Ethernet to ICRC, in `out`: the transport headers of `packet` (its other members are not
/// read), `payload` as is, zero padding to a multiple of four (`packet.bth.pad` is overruled), ICRC. Returns the
/// frame's bytes; 0 when `out` is too small, the opcode is not defined, or an IP packet cannot be that long.
std::size_t encode(std::span<std::byte> out, const Packet& packet, const Route& route,
                   std::span<const std::byte> payload, const Framing& framing = {});

/// Makes IPv4 checksum and ICRC right again after a frame's bytes were changed on purpose, lengths as its IP header
/// says. False when the frame is too short for that.
bool reseal(std::span<std::byte> frame);

}  // namespace uroce::wire
