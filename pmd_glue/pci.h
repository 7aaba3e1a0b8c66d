// Cards on the PCI bus as the kernel shows them (sysfs): who drives a card, and what that means for EAL.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "pmd_glue/interface_use.h"

namespace uroce::glue {

struct PciCard {
  std::string address;  ///< "0000:00:04.0"
  std::string driver;   ///< the kernel's driver that it is bound to; empty for none
  bool iommu = false;   ///< the kernel maps its memory accesses

  /// Bound to a driver that gives it to a program.
  bool for_programs() const;
  /// Its driver leaves memory accesses unmapped, so EAL needs physical addresses, which hugepages alone have.
  bool needs_hugepages() const { return for_programs() && !(driver == "vfio-pci" && iommu); }
  /// Has an interrupt for each queue.
  bool has_rx_interrupts() const { return driver == "vfio-pci" || keeps_kernel_driver(); }
  /// Its poll-mode driver works beside the kernel's (mlx4, mlx5, mana).
  bool keeps_kernel_driver() const;
};

/// The address that a value of EAL's -a names, "0000:00:04.0"; nullopt when it names no PCI device.
std::optional<std::string> pci_address(std::string_view allow);

/// nullopt when there is no such device. `root`: "/sys" but in tests.
std::optional<PciCard> read_pci_card(const std::string& address, const std::filesystem::path& root = "/sys");

/// All Ethernet cards, by address.
std::vector<PciCard> ethernet_cards(const std::filesystem::path& root = "/sys");

/// Ethernet cards that are bound to a driver for programs; EAL probes them when no -a names a device.
std::vector<PciCard> cards_for_programs(const std::filesystem::path& root = "/sys");

/// Why a card cannot be a port, and the way out, when EAL found none on it.
std::string why_no_port(const std::string& address, const InterfaceUses& uses,
                        const std::filesystem::path& root = "/sys");

/// Keeps other processes that use this class off the cards. EAL itself lets two processes drive one card where the
/// kernel's driver is a uio one.
class PciLocks {
 public:
  PciLocks() = default;
  PciLocks(PciLocks&& other) noexcept : fds_(std::exchange(other.fds_, {})) {}
  PciLocks& operator=(PciLocks&& other) noexcept {
    std::swap(fds_, other.fds_);
    return *this;
  }
  ~PciLocks();

  /// Errors: EBUSY naming the card.
  Result<void> add(const PciCard& card, const std::filesystem::path& root = "/sys");

 private:
  std::vector<int> fds_;
};

}  // namespace uroce::glue
