#pragma once

#include "net/address.h"
#include "net/l2.h"

namespace uroce::net {

/// The port's.
constexpr EthAddr kOurs{{0x02, 0, 0, 0, 0, 0xaa}};

/// The address that `text` names. Throws where it names none.
inline Gid gid(std::string_view text) { return parse_address(text).value(); }

}  // namespace uroce::net
