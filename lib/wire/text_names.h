// Names in the text form of packets.
#pragma once

#include <array>
#include <string_view>

#include "wire/opcode.h"

namespace uroce::wire {

/// The names stand by NakCode.
inline constexpr std::array<std::string_view, 5> kNakNames = {"psn_sequence", "invalid_request", "remote_access",
                                                              "remote_operational", "invalid_rd_request"};

/// The transport's name and a blank. Empty for operations without a transport name, such as CNP.
constexpr std::string_view transport_prefix(Transport transport) {
  switch (transport) {
    case Transport::rc: return "RC ";
    case Transport::uc: return "UC ";
    case Transport::ud: return "UD ";
    case Transport::xrc: return "XRC ";
    default: return "";
  }
}

}  // namespace uroce::wire
