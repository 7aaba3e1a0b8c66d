#include "pmd_glue/neighbourhood.h"

#include <fmt/format.h>

#include <cerrno>

#include "net/address.h"
#include "net/neighbours.h"

namespace uroce::glue {

namespace {
constexpr Nanos kRedirectRetry = std::chrono::milliseconds(5);
}  // namespace

bool Neighbourhood::redirect(const transport::NextHop& next_hop) {
  const bool taken = redirect_ == nullptr || redirect_(next_hop);
  redirect_due_ = taken ? kNever : clock_.now() + kRedirectRetry;
  return taken;
}

Error Neighbourhood::at_port(const Error& error) const {
  return {error.code, fmt::format("port {}: {}", port_.name(), error.text)};
}

std::unexpected<Error> Neighbourhood::no_source(const Gid& dgid) const {
  return fail(ENETUNREACH, fmt::format("port {} has no address from which to reach {}; add one (device.addresses)",
                                       port_.name(), net::to_text(dgid)));
}

Result<EthAddr> Neighbourhood::no_answer(const Gid& dgid, const Gid& hop) const {
  const std::string who = hop == dgid
                              ? net::to_text(dgid)
                              : fmt::format("the gateway {} on the way to {}", net::to_text(hop), net::to_text(dgid));
  const char* advice = port_.link_up() ? "is the peer running, on this network, with this address?"
                                       : "the port's link is down: is the other end there?";
  return fail(EHOSTUNREACH, fmt::format("port {}: nobody answers for {}; {}", port_.name(), who, advice));
}

Result<EthAddr> Neighbourhood::no_turn(const Gid& dgid, uint32_t user) const {
  return fail(
      EHOSTUNREACH,
      fmt::format("port {}: {} was not asked for, because {} addresses are being resolved for user {}, which is "
                  "the limit; wait until those have answered or failed, or ask for fewer at a time",
                  port_.name(), net::to_text(dgid), net::kMaxPendingOfUser, user));
}

}  // namespace uroce::glue
