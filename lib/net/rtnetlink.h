// Messages between this process and the kernel about one network interface: its addresses, its neighbours, and routes
// (rtnetlink(7)). Bytes in and out; no socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <uroce/types.h>

#include "net/address.h"

namespace uroce::net {

/// RTM_NEWADDR and RTM_DELADDR.
struct AddressNews {
  uint32_t interface = 0;
  InterfaceAddress address{};
  uint32_t flags = 0;  ///< IFA_F_*
  bool removed = false;
};

/// RTM_NEWNEIGH and RTM_DELNEIGH.
struct NeighbourNews {
  uint32_t interface = 0;
  Gid gid{};
  uint16_t state = 0;  ///< NUD_*
  std::optional<EthAddr> mac{};
  bool removed = false;
};

/// RTM_NEWLINK.
struct LinkNews {
  uint32_t interface = 0;
  std::optional<EthAddr> mac{};
  std::optional<uint32_t> mtu{};  ///< bytes
};

/// RTM_NEWROUTE: an answer to ask_route(), or a change of a table.
struct RouteNews {
  uint8_t type = 0;  ///< RTN_*
  uint32_t interface = 0;
  std::optional<Gid> gateway{};  ///< of either family
  std::optional<Gid> source{};
  bool encapsulated = false;  ///< a tunnel: packets cannot be sent as they are
};

/// Another change that may redirect routes: RTM_DELROUTE, and those of rules and next hops.
struct RoutingChange {};

/// The end of a dump, and the kernel's answer to a request that it refuses.
struct AnswerEnd {
  int error = 0;  ///< an errno value; 0 at the end of a dump
};

struct KernelMessage {
  uint32_t sequence = 0;     ///< of the request that it answers
  bool interrupted = false;  ///< the table changed during the dump: dump it again
  std::variant<AddressNews, NeighbourNews, LinkNews, RouteNews, RoutingChange, AnswerEnd> news{};
};

/// Takes the messages of one datagram apart, and leaves those out that concern no one here. False when the datagram is
/// malformed; messages before the fault have been taken.
bool parse_rtnetlink(std::span<const std::byte> datagram, const std::function<void(const KernelMessage&)>& take);

enum class KernelTable : uint8_t { addresses, neighbours };

/// A request for all entries of a table.
std::vector<std::byte> ask_table(KernelTable table, uint32_t interface, uint32_t sequence);
/// A request for the route to `dgid` through an interface. `entry`: the entry of the table, without the kernel's
/// assumption that an address without a route is on the link.
std::vector<std::byte> ask_route(const Gid& dgid, uint32_t interface, uint32_t sequence, bool entry);

}  // namespace uroce::net
