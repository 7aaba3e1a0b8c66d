#pragma once

#include "net/address.h"

namespace uroce::net {

/// The address that `text` names. Throws where it names none.
inline Gid gid(std::string_view text) { return parse_address(text).value(); }

}  // namespace uroce::net
