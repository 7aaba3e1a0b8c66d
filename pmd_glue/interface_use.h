// The uses that this machine has for its network interfaces, and loses with a card that is taken from the kernel.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace uroce::glue {

struct InterfaceUse {
  bool default_route = false;  ///< of IPv4 or IPv6
  bool connections = false;    ///< TCP connections of the kernel have one of its addresses, an ssh session perhaps
  std::string addresses{};     ///< "192.0.2.1, 2001:db8::1", without those of the link alone
};
/// Their key is the name of the interface.
using InterfaceUses = std::map<std::string, InterfaceUse>;

/// As the kernel tells it in this network namespace. It leaves out what cannot be read.
InterfaceUses read_interface_uses();

/// A card's interface, or one that stands on it: a bridge, a bond, a VLAN.
struct CardInterface {
  std::string name{};
  InterfaceUse use{};
  /// Why the machine cannot do without it, in a sentence's second half; empty when it can.
  std::string need() const;
};

/// The interface that is needed the most. nullopt: the kernel has none on this card. `root`: "/sys" but in tests.
std::optional<CardInterface> interface_of_card(const std::string& address, const InterfaceUses& uses,
                                               const std::filesystem::path& root = "/sys");

}  // namespace uroce::glue
