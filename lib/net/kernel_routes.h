// The kernel's routes from one interface, one destination at a time: the next hop and the source address of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/time.h"
#include "net/kernel_addresses.h"
#include "net/kernel_neighbours.h"
#include "net/kernel_requests.h"
#include "net/rtnetlink.h"

namespace uroce::net {

/// Routes are asked for again at most this often, however often the kernel's tables change.
inline constexpr Nanos kRouteInterval = std::chrono::milliseconds(200);
/// The most destinations. A new one replaces the one whose last request() is the longest ago.
inline constexpr std::size_t kMaxDestinations = 16384;

class KernelRoutes {
 public:
  /// All outlive it.
  KernelRoutes(const LinkIdentity& interface, const KernelAddresses& addresses, KernelNeighbours& neighbours,
               KernelRequests& requests, KernelTablesCounters& counters)
      : interface_(interface),
        addresses_(addresses),
        neighbours_(neighbours),
        requests_(requests),
        counters_(counters) {}

  // KernelTables describes these four.
  void request(const Gid& dgid, Nanos now);
  Result<Gid> next_hop(const Gid& dgid) const;
  std::optional<Gid> source_for(const Gid& dgid) const;
  std::map<Gid, EthAddr> take_changes();

  /// Takes a message of the kernel that may answer a question.
  void take_answer(const KernelMessage& message, Nanos now);
  /// Answers were lost.
  void forget_questions() { questions_.clear(); }
  /// The routes of all destinations may have changed: asks for them soon.
  void ask_again(Nanos now);
  /// Does what is due at `now`.
  void poll(Nanos now);
  Nanos next_deadline() const { return stale_.empty() ? due_ : Nanos(0); }

 private:
  struct Destination {
    std::optional<Gid> hop{};
    std::optional<Gid> source{};
    std::optional<Error> error{};
    std::optional<EthAddr> told{};  ///< the Ethernet address that take_changes() reported last
    uint64_t used = 0;              ///< when request() was last called; see uses_
  };
  /// A question about a route. `entry`: see ask_route().
  struct Question {
    Gid dgid{};
    bool entry = false;
  };

  void take_route(const RouteNews& news, const Question& question, Nanos now);
  void take_refusal(int code, const Question& question);
  void ask(const Question& question);
  void set_way(const Gid& dgid, const Gid& hop, std::optional<Gid> source, Nanos now);
  void set_error(const Gid& dgid, Error error);
  void forget_hop(Destination& destination);
  Destination& destination_of(const Gid& dgid);

  const LinkIdentity& interface_;
  const KernelAddresses& addresses_;
  KernelNeighbours& neighbours_;
  KernelRequests& requests_;
  KernelTablesCounters& counters_;
  std::map<Gid, Destination> destinations_;
  std::map<uint32_t, Question> questions_;  ///< by the number of the request
  std::set<Gid> stale_;                     ///< destinations whose routes are to be asked for
  Nanos due_ = kNever;                      ///< when to make all destinations stale
  Nanos asked_{0};
  uint64_t uses_ = 0;
  bool changed_ = false;  ///< a destination has another next hop
};

}  // namespace uroce::net
