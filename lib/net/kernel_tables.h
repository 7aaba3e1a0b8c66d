// The kernel's knowledge of one network interface: its addresses, the neighbours on its link, and the routes through
// it. A device beside the kernel takes all of that from here, and neither asks nor answers on the link itself.
//
// A plain state machine: the kernel's messages and time are arguments, requests go out through callbacks. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/time.h"
#include "net/kernel_addresses.h"
#include "net/kernel_neighbours.h"
#include "net/kernel_requests.h"
#include "net/kernel_routes.h"
#include "net/rtnetlink.h"
#include "net/table_reading.h"

namespace uroce::net {

/// Gives each message of the kernel to the part that it is for.
class KernelTables {
 public:
  struct Kernel {
    /// Sends a request; the answer comes to on_answers(), later.
    std::function<void(std::span<const std::byte>)> ask;
    KernelNeighbours::Probe probe;
  };

  KernelTables(LinkIdentity interface, Kernel kernel);
  KernelTables(const KernelTables&) = delete;
  KernelTables& operator=(const KernelTables&) = delete;

  /// Asks for all tables, also after messages were lost.
  void read_all(Nanos now);
  /// The interface went away, and another of its name came: follows that one from now on.
  void move_to(uint32_t index, Nanos now);
  /// Counts the loss, and reads all tables again.
  void on_overrun(Nanos now);
  /// Takes one datagram of the kernel with answers to requests.
  void on_answers(std::span<const std::byte> datagram, Nanos now);
  /// Takes one datagram of the kernel with changes of which it tells everybody.
  void on_news(std::span<const std::byte> datagram, Nanos now);
  /// Sends what is due at `now`.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

  /// The usable addresses of the interface: IPv4, then IPv6, link-local ones last; otherwise in the kernel's order.
  /// Tentative ones are left out (RFC 4862, 5.4). A deprecated one is not a source for new connections (5.5.4).
  std::vector<Gid> addresses() const { return addresses_.list(); }
  bool ours(const Gid& gid) const { return addresses_.has(gid); }
  /// Changes whenever addresses() may change.
  uint64_t generation() const { return addresses_.generation(); }
  /// True once the kernel has told all addresses and neighbours.
  bool complete() const { return reading_.complete(); }

  /// Asks for the route to `dgid`, and makes the kernel find the next hop if it is not known.
  void request(const Gid& dgid, Nanos now) { routes_.request(dgid, now); }
  /// The next hop to `dgid`. Errors: ENETUNREACH; EAGAIN when the kernel has not answered.
  Result<Gid> next_hop(const Gid& dgid) const { return routes_.next_hop(dgid); }
  /// The source address for packets to `dgid`; nullopt when there is none, or no route.
  std::optional<Gid> source_for(const Gid& dgid) const { return routes_.source_for(dgid); }
  /// The Ethernet address of a next hop, if known.
  std::optional<EthAddr> lookup(const Gid& hop) const { return neighbours_.lookup(hop); }
  /// True when the kernel has given up on a next hop, or cannot look for it.
  bool failed(const Gid& hop) const { return neighbours_.failed(hop); }

  /// The destinations whose Ethernet address became known or changed since the last call.
  std::map<Gid, EthAddr> take_changes() { return routes_.take_changes(); }
  /// The interface's Ethernet address and MTU, if they changed since the last call.
  std::optional<LinkNews> take_link();

  const KernelTablesCounters& counters() const { return counters_; }

 private:
  void take(const AddressNews& news);
  void take(const LinkNews& news);
  /// Takes a message of the table that is being read.
  void take_entry(const KernelMessage& message, Nanos now);

  LinkIdentity interface_;
  KernelTablesCounters counters_;
  KernelRequests requests_;
  TableReading reading_;
  KernelAddresses addresses_;
  KernelNeighbours neighbours_;
  KernelRoutes routes_;
  LinkNews link_{};  ///< the last that came
  bool link_changed_ = false;
};

}  // namespace uroce::net
