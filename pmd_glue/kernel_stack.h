// The kernel's network stack beside a port on a network interface (net_uroce_kif, net_af_packet, net_tap, bifurcated
// drivers), where it sees the same frames.
//
// The kernel would answer each RoCE packet to one of its own addresses with ICMP "port unreachable". A socket that is
// bound to the address and receives nothing prevents that, also for addresses that the kernel gets later.
//
// Other programs of uroce see the same frames, too. Each address belongs to one of them (address_claims.h).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "message/belongings.h"
#include "pmd_glue/address_claims.h"

namespace uroce::glue {

class Port;

class KernelStack {
 public:
  /// `port` outlives this; one without an interface of the kernel needs nothing. `shared`: the port's addresses are the
  /// kernel's, as they should be. `vlan`: the tag of the port's frames; 0: none.
  KernelStack(const Port& port, bool shared, uint32_t vlan);
  ~KernelStack();
  KernelStack(const KernelStack&) = delete;
  KernelStack& operator=(const KernelStack&) = delete;

  /// Claims addresses that set_addresses() will set, and returns those that are free. note() tells of link-local ones
  /// that are not: every device on the interface would have them. Errors: EADDRINUSE if another program has any other
  /// address, or all of them; no claim is left.
  Result<std::vector<Gid>> claim(std::span<const Gid> gids);
  /// Gives up claims without a set_addresses().
  void unclaim();
  /// Sets the device's addresses, and returns them without those that another program has. note() reports each
  /// conflict, with the kernel's set-up too.
  std::vector<Gid> set_addresses(std::span<const Gid> gids);
  /// The port's interface came back, maybe with another index.
  void follow_interface();

  // --- A planned restart. Names begin with `device` -----------------------------------------------------------------

  /// Any thread.
  void lend(message::Belongings& belongings, const std::string& device);
  /// Between the two calls, claims and sockets that were lent are taken. `belongings` lives until the second.
  void begin_inheriting(message::Belongings& belongings, std::string device);
  void end_inheriting();
  /// All that was taken is this process's from now on.
  void become_holder();

 private:
  void give_up_others();
  std::string taken(const Gid& gid, const ClaimHolder& holder) const;
  void silence(const Gid& gid);
  /// The socket for the address that was lent; -1 if there is none.
  int inherited_socket(const Gid& gid);
  void look_for_clash(const Gid& gid) const;

  const Port& port_;
  const bool shared_;
  std::mutex mutex_;        ///< guards the members below
  unsigned interface_ = 0;  ///< index; 0 for none
  std::string interface_name_;
  std::map<Gid, int> sockets_;  ///< -1 where binding failed
  std::optional<AddressClaims> claims_;
  std::set<Gid> told_;  ///< that another program has them
  message::Belongings* inherited_ = nullptr;
  std::string inherited_as_;
};

}  // namespace uroce::glue
