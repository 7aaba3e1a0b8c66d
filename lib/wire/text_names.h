// Words that the text form's writer and reader share.
#pragma once

#include <array>
#include <string_view>

#include "wire/opcode.h"

namespace uroce::wire {

/// By NakCode.
inline constexpr std::array<std::string_view, 5> kNakNames = {"psn_sequence", "invalid_request", "remote_access",
                                                              "remote_operational", "invalid_rd_request"};

/// The transport's word and a blank; nothing for a CNP, whose operation says it.
constexpr std::string_view transport_prefix(Transport transport) {
  switch (transport) {
    case Transport::rc: return "RC ";
    case Transport::uc: return "UC ";
    case Transport::ud: return "UD ";
    default: return "";
  }
}

}  // namespace uroce::wire
