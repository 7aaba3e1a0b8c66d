// The kernel's neighbours on the link of one interface. For each next hop in use, it decides when the kernel looks for
// it and when to give it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include <uroce/types.h>

#include "base/time.h"
#include "net/kernel_addresses.h"
#include "net/kernel_requests.h"
#include "net/rtnetlink.h"

namespace uroce::net {

/// How often routes in use are asked for again, and neighbours in use that the kernel has not heard of lately.
inline constexpr Nanos kFreshTime = std::chrono::seconds(30);
/// The longest time until a neighbour in use that does not answer is asked about again; it doubles from kFreshTime.
inline constexpr Nanos kLongestPause = std::chrono::hours(1);
/// How long the kernel may take to find a neighbour. By default it gives up by itself after 3 s.
inline constexpr Nanos kKernelResolveTime = std::chrono::seconds(10);
/// The most neighbours of the link that are followed.
inline constexpr std::size_t kMaxKernelNeighbours = 65536;

class KernelNeighbours {
 public:
  /// Makes the kernel find a neighbour, or look whether it is still there. Returns an errno value, 0 for success.
  using Probe = std::function<int(const Gid&)>;

  /// `interface`, `addresses` and `counters` outlive it.
  KernelNeighbours(const LinkIdentity& interface, const KernelAddresses& addresses, Probe probe,
                   KernelTablesCounters& counters)
      : interface_(interface), addresses_(addresses), probe_(std::move(probe)), counters_(counters) {}

  /// `reading`: see TableReading::number().
  void take(const NeighbourNews& news, uint64_t reading, Nanos now);
  /// Forgets those that the reading did not mention, or mentioned without a state.
  void forget_unread(uint64_t reading, Nanos now);

  /// One more destination has the next hop `gid`. Has the kernel look for it unless it is known.
  void use(const Gid& gid, Nanos now);
  /// One destination fewer has it.
  void leave(const Gid& gid);
  /// Has the kernel look for a next hop in use again, if it is not known.
  void look_for(const Gid& gid, Nanos now);

  /// The Ethernet address, if known.
  std::optional<EthAddr> lookup(const Gid& gid) const;
  /// True when the kernel has given up on a next hop, or cannot look for it.
  bool failed(const Gid& gid) const;
  /// True if the Ethernet address of a next hop became known or changed since the last call.
  bool take_learned() { return std::exchange(learned_, false); }

  /// Does what is due at `now`.
  void poll(Nanos now);
  Nanos next_deadline() const;

 private:
  struct Neighbour {
    std::optional<EthAddr> mac{};  ///< without a value while the kernel has none that is valid
    uint16_t state = 0;
    uint64_t read = 0;
  };
  /// A next hop in use.
  struct Hop {
    uint32_t users = 0;  ///< destinations
    Nanos fresh_until = kNever;
    Nanos resolve_until = kNever;  ///< while the kernel looks for it
    Nanos pause = kFreshTime;      ///< after the next failure
    bool failed = false;
  };

  void take_hop(Hop& hop, const NeighbourNews& news, bool known, Nanos now);
  void probe(const Gid& gid, Hop& hop, Nanos now);
  void give_up(Hop& hop, Nanos now);
  /// The kernel has confirmed the neighbour lately, is about to, or never needs to.
  bool fresh(const Gid& gid) const;

  const LinkIdentity& interface_;
  const KernelAddresses& addresses_;
  const Probe probe_;
  KernelTablesCounters& counters_;
  std::map<Gid, Neighbour> neighbours_;
  std::map<Gid, Hop> hops_;
  bool learned_ = false;
};

}  // namespace uroce::net
