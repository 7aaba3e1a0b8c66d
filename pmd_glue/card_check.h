// A report on the Ethernet cards of this machine: the requirements of config/cards.md beside what is there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pmd_glue/interface_use.h"

namespace uroce::glue {

struct CardReport {
  std::string address;  ///< "0000:00:04.0"
  bool ready = false;   ///< uroced can drive it as it is
  std::string text;     ///< which card it is, what holds for it, and the way out where it is not ready
};

/// All Ethernet cards on the PCI bus, by address. Touches no card. `hugepages`: some are free. `uses`: what the
/// kernel's interfaces are needed for. `root`: "/sys" but in tests.
std::vector<CardReport> check_cards(bool hugepages, const InterfaceUses& uses,
                                    const std::filesystem::path& root = "/sys");

}  // namespace uroce::glue
