// Reads the text form of packets. wire/text.h has the grammar.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::test {

/// A packet read from text: its headers and the length of its payload. `packet.frame` and `packet.payload` are empty,
/// `packet.bth.pad` fits `payload_length`. encode() makes a frame of it.
struct TextPacket {
  wire::Packet packet{};
  std::size_t payload_length = 0;
  std::vector<std::byte> content{};  ///< the payload of a HELLO or SACK, if the line has any of its fields
};

std::string to_text(const TextPacket& text);

/// Reads a line in that grammar, with at most 65,000 bytes of payload. to_text() of the result gives the same line
/// in canonical order. Errors: EINVAL; the text names the wrong word.
Result<TextPacket> from_text(std::string_view line);

}  // namespace uroce::test
