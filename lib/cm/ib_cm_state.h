// The states of a connection in the IB connection manager (IBTA vol. 1, 12.9). README.md shows the transitions.
#pragma once

#include <cstdint>
#include <string_view>

namespace uroce::cm {

enum class CmState : uint8_t {
  req_sent,
  rep_received,
  req_received,
  rep_sent,
  established,
  dreq_sent,
  timewait,
  sidr_sent,
  sidr_received,
  closed,  ///< the connection has ended; while its last answer is kept, the peer's repetitions get it again
};
/// "REQ sent", for error texts.
std::string_view name(CmState state);

}  // namespace uroce::cm
