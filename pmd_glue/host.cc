#include "pmd_glue/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "net/address.h"

namespace uroce::glue {

namespace {
constexpr auto kStep = std::chrono::microseconds(20);
/// After the time that an engine or the service thread had planned.
constexpr Nanos kLate = std::chrono::milliseconds(100);
}  // namespace

Host::Host(const Port& port, Neighbourhood& neighbourhood, std::vector<Worker*> workers, const ServiceThread& service,
           PeerList peers, std::function<bool()> owner, std::function<void()> poll)
    : port_(port),
      neighbourhood_(neighbourhood),
      workers_(std::move(workers)),
      service_(service),
      peers_(std::move(peers)),
      owner_(std::move(owner)),
      poll_(std::move(poll)) {}

void Host::wait_step() {
  if (owner_()) {
    poll_();
  } else {
    std::this_thread::sleep_for(kStep);
  }
}

bool Host::keeps_up() const {
  Nanos due = service_.next_turn();
  for (const Worker* worker : workers_) due = std::min(due, worker->next_round());
  return clock_.now() - due <= kLate;
}

Result<EthAddr> Host::resolve(const Gid& sgid, const Gid& dgid, uint32_t user, std::chrono::nanoseconds timeout) {
  if (sgid.is_ipv4() != dgid.is_ipv4()) {
    return fail(EINVAL, fmt::format("port {}: {} cannot reach {}: one is IPv4, the other IPv6; choose another "
                                    "sgid_index",
                                    port_.name(), net::to_text(sgid), net::to_text(dgid)));
  }
  if (!peers_.takes(dgid)) {
    return fail(EACCES, fmt::format("port {}: its list of peers (device.allow, --allow) is without {}; add it there, "
                                    "and start the program again",
                                    port_.name(), net::to_text(dgid)));
  }
  return neighbourhood_.resolve(dgid, user, timeout, [this] { wait_step(); });
}

}  // namespace uroce::glue
