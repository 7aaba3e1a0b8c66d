#include "cm/id.h"

#include <cerrno>

#include <fmt/format.h>

#include "net/address.h"

namespace uroce::cm {

std::string text_of(const CmAddress& address) {
  return fmt::format("{}{}{}:{}", address.ip.is_ipv4() ? "" : "[", net::to_text(address.ip),
                     address.ip.is_ipv4() ? "" : "]", address.port);
}

std::unexpected<Error> wrong_state(const Id& id, const char* call, const char* needed) {
  static constexpr const char* kNames[] = {
      "idle",      "bound",      "address being resolved", "address resolved", "route resolved",
      "listening", "connecting", "REP received",           "REQ held back",    "REQ received",
      "accepted",  "connected",  "disconnecting",          "disconnected"};
  return fail(EINVAL, fmt::format("{}: communication id {} is in state '{}', but the call needs {}", call, id.number,
                                  kNames[static_cast<std::size_t>(IdState{id.state})], needed));
}

}  // namespace uroce::cm
