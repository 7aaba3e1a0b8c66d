// A device's claims on addresses of an interface of the kernel, so that no two programs have the same one.
//
// Every program with a packet socket gets every frame. Two with one address would both answer: of a connection request,
// one accepts it and the other rejects it. A claim is a name among the abstract Unix sockets (unix(7)). Each network
// namespace has names of its own, and a name goes with its process, however that ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <uroce/types.h>

#include "message/belongings.h"

namespace uroce::glue {

/// A process that has an address already.
struct ClaimHolder {
  pid_t pid = 0;  ///< 0 if it is in a PID namespace that this process does not see
  uid_t uid = 0;
};

class AddressClaims {
 public:
  /// On the interface with this index and name; frames have the tag `vlan` (0: none).
  AddressClaims(unsigned index, std::string interface, uint32_t vlan);
  ~AddressClaims();
  AddressClaims(const AddressClaims&) = delete;
  AddressClaims& operator=(const AddressClaims&) = delete;

  /// Claims the address. Returns who has it, if somebody else does. Any user may take a name, so one whose holder
  /// cannot have a port on the interface does not count: note() tells of it.
  std::optional<ClaimHolder> claim(const Gid& gid);
  /// The interface came back with another index. Claims stay, because they go by its name.
  void set_index(unsigned index) { index_ = index; }
  /// Gives up all claims but those on `gids`.
  void keep(std::span<const Gid> gids);

  // A planned restart. Names begin with `device`.
  void lend(message::Belongings& belongings, const std::string& device) const;
  /// Takes a claim that was lent, if there is one.
  void inherit(message::Belongings& belongings, const std::string& device, const Gid& gid);
  /// The claims are this process's from now on, for all who ask.
  void become_holder() const;

 private:
  /// Whether the process has, or may have, a packet socket on the interface.
  bool may_have_port(const ClaimHolder& holder) const;
  void tell_of_stranger(const Gid& gid, const std::optional<ClaimHolder>& holder) const;

  unsigned index_;
  const std::string interface_;
  const uint32_t vlan_;
  std::map<Gid, int> claims_;  ///< the sockets; -1 where the name was not to be had
};

}  // namespace uroce::glue
