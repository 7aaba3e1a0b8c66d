// The seals of a connection with a proven uroce peer (wire::Seal).
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

// Both are rare, and not inlined: the compiler would inline less elsewhere.

/// The peer is a proven uroce peer, whose epoch is known from now on.
[[gnu::cold, gnu::noinline]] void begin_selective(Qp& qp);
/// Has `packet` the seal of the proven peer?
[[gnu::cold, gnu::noinline]] bool is_sealed(const Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
