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
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/counter.h"
#include "base/time.h"
#include "net/address.h"
#include "net/rtnetlink.h"

namespace uroce::net {

/// How often routes in use are asked for again, and neighbours in use that the kernel has not heard of lately.
inline constexpr Nanos kFreshTime = std::chrono::seconds(30);
/// The longest time until a neighbour in use that does not answer is asked about again; it doubles from kFreshTime.
inline constexpr Nanos kLongestPause = std::chrono::hours(1);
/// How long the kernel may take to find a neighbour. By default it gives up by itself after 3 s.
inline constexpr Nanos kKernelResolveTime = std::chrono::seconds(10);
/// How long the kernel may take to answer a request.
inline constexpr Nanos kKernelAnswerTime = std::chrono::seconds(1);
/// Routes are asked for again at most this often, however often the kernel's tables change.
inline constexpr Nanos kRouteInterval = std::chrono::milliseconds(200);
/// The most addresses: what a GID table holds.
inline constexpr std::size_t kMaxKernelAddresses = 256;
/// The most neighbours of the link that are followed.
inline constexpr std::size_t kMaxKernelNeighbours = 65536;
/// The most destinations. A new one replaces the one whose last request() is the longest ago.
inline constexpr std::size_t kMaxDestinations = 16384;

struct KernelTablesCounters {
  Counter messages;    ///< of the kernel
  Counter malformed;   ///< datagrams with a fault
  Counter overruns;    ///< messages were lost, and all tables read again
  Counter learned;     ///< neighbours that became known or changed
  Counter probes;      ///< the kernel was asked to find a neighbour
  Counter failed;      ///< the kernel gave up on a neighbour
  Counter table_full;  ///< an address or neighbour was left out, or a destination replaced
};

/// A network interface of the kernel.
struct LinkIdentity {
  uint32_t index = 0;
  std::string name{};
  EthAddr mac{};
};

class KernelTables {
 public:
  struct Kernel {
    /// Sends a request; the answer comes to on_answers(), later.
    std::function<void(std::span<const std::byte>)> ask;
    /// Makes the kernel find a neighbour, or look whether it is still there. Returns an errno value, 0 for success.
    std::function<int(const Gid&)> probe;
  };

  KernelTables(LinkIdentity interface, Kernel kernel);

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
  std::vector<Gid> addresses() const;
  bool ours(const Gid& gid) const { return addresses_.contains(gid) && usable(addresses_.at(gid)); }
  /// Changes whenever addresses() may change.
  uint64_t generation() const { return generation_; }
  /// True once the kernel has told all addresses and neighbours.
  bool complete() const { return asking_ == Asking::nothing && !again_; }

  /// Asks for the route to `dgid`, and makes the kernel find the next hop if it is not known.
  void request(const Gid& dgid, Nanos now);
  /// The next hop to `dgid`. Errors: ENETUNREACH; EAGAIN when the kernel has not answered.
  Result<Gid> next_hop(const Gid& dgid) const;
  /// The source address for packets to `dgid`; nullopt when there is none, or no route.
  std::optional<Gid> source_for(const Gid& dgid) const;
  /// The Ethernet address of a next hop, if known.
  std::optional<EthAddr> lookup(const Gid& hop) const;
  /// True when the kernel has given up on a next hop, or cannot look for it.
  bool failed(const Gid& hop) const;

  /// The destinations whose Ethernet address became known or changed since the last call.
  std::map<Gid, EthAddr> take_changes();
  /// The interface's Ethernet address and MTU, if they changed since the last call.
  std::optional<LinkNews> take_link();

  const KernelTablesCounters& counters() const { return counters_; }

 private:
  enum class Asking : uint8_t { nothing, addresses, neighbours };
  struct Address {
    uint8_t prefix = 0;
    uint32_t flags = 0;
    uint64_t order = 0;  ///< when it came
    uint64_t read = 0;   ///< the reading of the table that had it last
  };
  struct Neighbour {
    std::optional<EthAddr> mac{};  ///< without a value while the kernel has none that is valid
    uint16_t state = 0;
    uint64_t read = 0;
  };
  struct Destination {
    std::optional<Gid> hop{};
    std::optional<Gid> source{};
    std::optional<Error> error{};
    std::optional<EthAddr> told{};  ///< the Ethernet address that take_changes() reported last
    uint64_t used = 0;              ///< when request() was last called; see uses_
  };
  /// A next hop in use.
  struct Hop {
    uint32_t users = 0;  ///< destinations
    Nanos fresh_until = kNever;
    Nanos resolve_until = kNever;  ///< while the kernel looks for it
    Nanos pause = kFreshTime;      ///< after the next failure
    bool failed = false;
  };
  /// A question about a route. `entry`: see ask_route().
  struct Question {
    Gid dgid{};
    bool entry = false;
  };

  static bool usable(const Address& address);
  void take(const AddressNews& news);
  void take(const NeighbourNews& news, Nanos now);
  void take(const LinkNews& news);
  void take_answer(const KernelMessage& message, Nanos now);
  void take_route(const RouteNews& news, const Question& question, Nanos now);
  void take_refusal(int code, const Question& question);
  void begin_reading(Asking what, Nanos now);
  void end_reading(Nanos now);
  void ask(const Question& question);
  void ask_routes_again(Nanos now);
  void set_way(const Gid& dgid, const Gid& hop, std::optional<Gid> source, Nanos now);
  void set_error(const Gid& dgid, Error error);
  void forget_hop(Destination& destination);
  void probe(const Gid& gid, Hop& hop, Nanos now);
  void give_up(Hop& hop, Nanos now);
  bool on_subnet(const Gid& gid) const;
  /// The kernel has confirmed the neighbour lately, is about to, or never needs to.
  bool fresh(const Gid& hop) const;
  Destination& destination_of(const Gid& dgid);

  LinkIdentity interface_;
  const Kernel kernel_;
  KernelTablesCounters counters_;

  std::map<Gid, Address> addresses_;
  std::map<Gid, Neighbour> neighbours_;
  std::map<Gid, Destination> destinations_;
  std::map<Gid, Hop> hops_;
  uint64_t generation_ = 0;
  uint64_t order_ = 0;
  uint64_t uses_ = 0;
  bool changed_ = false;  ///< take_changes() may have something
  LinkNews link_{};       ///< the last that came
  bool link_changed_ = false;

  // Requests.
  uint32_t sequence_ = 0;
  Asking asking_ = Asking::nothing;
  uint32_t asking_sequence_ = 0;
  bool interrupted_ = false;
  bool again_ = false;  ///< read all tables once the present reading ends
  uint64_t reading_ = 0;
  Nanos reading_until_ = kNever;
  std::map<uint32_t, Question> questions_;  ///< by sequence number
  std::set<Gid> stale_;                     ///< destinations whose routes are to be asked for
  Nanos routes_due_ = kNever;               ///< when to make all destinations stale
  Nanos routes_asked_{0};
};

}  // namespace uroce::net
