// The kernel's own network stack where it sees the same frames: ports on a network interface (net_af_packet, net_tap,
// bifurcated drivers).
//
// It would answer RoCE to an address of its own with ICMP "port unreachable", for each packet. A socket that is bound
// to the address and takes nothing keeps it silent, also about addresses that it gets later.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include <uroce/types.h>

namespace uroce::glue {

class KernelStack {
 public:
  /// Of EAL's port `port`, called `name`. Ports without an interface have no kernel beside them.
  KernelStack(uint16_t port, std::string name, std::string driver);
  ~KernelStack();
  KernelStack(const KernelStack&) = delete;
  KernelStack& operator=(const KernelStack&) = delete;

  /// The device's addresses from now on. What in the kernel's set-up will disturb or be disturbed is told by note().
  void set_addresses(std::span<const Gid> gids);

 private:
  void silence(const Gid& gid);
  void look_for_clash(const Gid& gid) const;

  const std::string name_;
  const std::string driver_;
  unsigned interface_ = 0;  ///< index; 0 for none
  std::string interface_name_;
  std::map<Gid, int> sockets_;  ///< -1 where there could be none
};

}  // namespace uroce::glue
