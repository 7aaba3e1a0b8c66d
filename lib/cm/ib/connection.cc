#include "cm/ib/connection.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace uroce::cm {

std::string_view name(CmState state) {
  switch (state) {
    case CmState::req_sent: return "REQ sent";
    case CmState::rep_received: return "REP received";
    case CmState::req_received: return "REQ received";
    case CmState::rep_sent: return "REP sent";
    case CmState::established: return "established";
    case CmState::dreq_sent: return "DREQ sent";
    case CmState::timewait: return "time-wait";
    case CmState::sidr_sent: return "SIDR_REQ sent";
    case CmState::sidr_received: return "SIDR_REQ received";
    case CmState::closed: return "closed";
  }
  return "unknown";
}

Result<void> check_state(const CmConnection& c, std::string_view call, std::initializer_list<CmState> states) {
  if (std::ranges::find(states, c.state) != states.end()) return {};
  return fail(EINVAL, fmt::format("{}: connection {:#x} is in state '{}', which does not allow the call", call, c.id,
                                  name(c.state)));
}

Result<void> check_private(std::span<const std::byte> data, std::size_t most, std::string_view message) {
  if (data.size() <= most) return {};
  return fail(EINVAL, fmt::format("{} bytes of private data do not fit into a {}, which has room for {}; send the rest "
                                  "over the connection",
                                  data.size(), message, most));
}

}  // namespace uroce::cm
