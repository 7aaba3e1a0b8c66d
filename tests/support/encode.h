// Builds frames from values: the inverse of wire::parse().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/packet.h"

namespace uroce::test {

/// Writes the BTH and the extended headers of `packet.bth.opcode`, packet.op().header_length bytes, at `out`.
/// Reserved bytes (those of a CNP) are zero. The opcode must be defined. Returns the number of bytes written.
std::size_t store_headers(std::byte* out, const wire::Packet& packet);

/// The fields below the BTH that a Route does not determine.
struct Framing {
  uint16_t udp_source = 0xc000;
  uint16_t udp_checksum = 0;  ///< written as given, not computed; the ICRC does not cover it
  uint16_t ipv4_id = 0;
  bool dont_fragment = true;
};

/// The Route and Framing with which a parsed packet's frame was sent.
wire::Route route_of(const wire::Packet& packet);
Framing framing_of(const wire::Packet& packet);

/// Builds a complete frame, Ethernet to ICRC, in `out`: the transport headers of `packet` (its other members are not
/// read), `payload` as is, zero padding to a multiple of four (`packet.bth.pad` is overruled), ICRC. Returns the
/// frame's bytes; 0 when `out` is too small, the opcode is not defined, or an IP packet cannot be that long.
std::size_t encode(std::span<std::byte> out, const wire::Packet& packet, const wire::Route& route,
                   std::span<const std::byte> payload, const Framing& framing = {});

/// Computes the IPv4 checksum and the ICRC of a frame anew, after its bytes were changed on purpose. Lengths are those
/// of its IP header. Returns false when the frame is too short.
bool reseal(std::span<std::byte> frame);

}  // namespace uroce::test
