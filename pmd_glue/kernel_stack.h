// The kernel's network stack beside a port on a network interface (net_uroce_kif, net_af_packet, net_tap, bifurcated
// drivers), where it sees the same frames.
//
// The kernel would answer each RoCE packet to one of its own addresses with ICMP "port unreachable". A socket that is
// bound to the address and receives nothing prevents that, also for addresses that the kernel gets later.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include <uroce/types.h>

namespace uroce::glue {

class Port;

class KernelStack {
 public:
  /// `port` outlives this; one without an interface of the kernel needs nothing. `shared`: the port's addresses are the
  /// kernel's, as they should be.
  KernelStack(const Port& port, bool shared);
  ~KernelStack();
  KernelStack(const KernelStack&) = delete;
  KernelStack& operator=(const KernelStack&) = delete;

  /// Sets the device's addresses. Any thread. note() reports each conflict with the kernel's set-up.
  void set_addresses(std::span<const Gid> gids);
  /// The port's interface came back, maybe with another index. Any thread.
  void follow_interface();

 private:
  void silence(const Gid& gid);
  void look_for_clash(const Gid& gid) const;

  const Port& port_;
  const bool shared_;
  std::mutex mutex_;        ///< guards the members below
  unsigned interface_ = 0;  ///< index; 0 for none
  std::string interface_name_;
  std::map<Gid, int> sockets_;  ///< -1 where binding failed
};

}  // namespace uroce::glue
