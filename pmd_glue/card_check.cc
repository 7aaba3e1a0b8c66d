#include "pmd_glue/card_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>

#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

/// A row of config/cards.md, as far as it can be checked. DPDK's drivers are those of Debian 12 (22.11).
struct Family {
  std::string_view vendor;         ///< as sysfs prints it
  std::string_view kernel_driver;  ///< empty: any of this vendor; such a row comes last
  std::string_view name;
  std::string_view pmd;
  bool interrupts = true;  ///< for receiving, where the binding has them
  bool uio = true;         ///< works with uio_pci_generic
  std::string_view note{};
};

constexpr std::array kFamilies{
    Family{"0x1af4", "", "virtio-net", "net_virtio"},
    Family{"0x1d0f", "", "AWS ENA", "net_ena", true, false},
    Family{"0x1ae0", "", "Google gVNIC", "net_gve", false, false, "its buffers hold no frame over 1460 bytes of MTU"},
    Family{"0x1414", "", "Azure MANA", "net_mana", true, true, "Debian's DPDK has no driver for it"},
    Family{"0x15ad", "", "VMware vmxnet3", "net_vmxnet3"},
    Family{"0x8086", "e1000", "Intel e1000", "net_e1000_em", false},
    Family{"0x8086", "e1000e", "Intel e1000e", "net_e1000_em", false},
    Family{"0x8086", "igb", "Intel igb", "net_e1000_igb"},
    Family{"0x8086", "igc", "Intel igc", "net_igc"},
    Family{"0x8086", "ixgbe", "Intel ixgbe", "net_ixgbe"},
    Family{"0x8086", "ixgbevf", "Intel ixgbe VF", "net_ixgbe_vf", true, false},
    Family{"0x8086", "i40e", "Intel i40e", "net_i40e"},
    Family{"0x8086", "ice", "Intel ice", "net_ice"},
    Family{"0x8086", "iavf", "Intel VF", "net_iavf", true, false},
    Family{"0x8086", "", "Intel card", "an Intel driver"},
    Family{"0x15b3", "", "NVIDIA card", "mlx5_pci"},
    Family{"0x14e4", "", "Broadcom card", "net_bnxt"},
    Family{"0x1dd8", "", "AMD Pensando card", "net_ionic", false},
};

std::string vendor_of(const std::string& address, const std::filesystem::path& root) {
  std::string vendor;
  std::ifstream(root / "bus/pci/devices" / address / "vendor") >> vendor;
  return vendor;
}

const Family* family_of(const PciCard& card, const std::filesystem::path& root) {
  const std::string vendor = vendor_of(card.address, root);
  const auto found = std::ranges::find_if(kFamilies, [&](const Family& one) {
    return one.vendor == vendor && (one.kernel_driver.empty() || one.kernel_driver == card.driver);
  });
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string bind_line(const PciCard& card, const Family& family) {
  const std::string_view driver = card.iommu ? "vfio-pci" : family.uio ? "uio_pci_generic" : "igb_uio";
  return fmt::format("modprobe {} && dpdk-devbind.py -b {} {}", driver, driver, card.address);
}

/// How to use a card that no program has. The kernel's interface ends with its card, so a needed one stays.
std::string advice(const PciCard& card, const Family& family, const std::optional<CardInterface>& interface) {
  if (!interface) return fmt::format("To give it to uroced: {}", bind_line(card, family));
  if (const std::string need = interface->need(); !need.empty()) {
    return fmt::format(
        "Giving it to DPDK would cut this machine off: its interface {0} {1}. Leave it with the kernel, which "
        "keeps the interface: uroced --interface {0}",
        interface->name, need);
  }
  const std::string& addresses = interface->use.addresses;
  return fmt::format(
      "To use it and leave it with the kernel: uroced --interface {0}. To give it to uroced, which ends the interface "
      "{0}{1}: {2}",
      interface->name, addresses.empty() ? "" : fmt::format(" with {}", addresses), bind_line(card, family));
}

/// Its poll-mode driver takes frames from the interface, which stays.
std::string beside_the_kernel(const std::optional<CardInterface>& interface) {
  std::string text = "; its driver works beside the kernel's";
  if (interface && !interface->need().empty()) {
    text += fmt::format(
        ", but takes the unicast frames of the interface {0}. That would cut this machine off, because {0} {1}. "
        "Leave it with the kernel alone: uroced --interface {0}",
        interface->name, interface->need());
  }
  return text;
}

/// Appends what hinders; whether nothing does.
bool judge(const PciCard& card, const Family& family, bool hugepages, const std::optional<CardInterface>& interface,
           std::string& text) {
  if (card.keeps_kernel_driver()) {
    text += beside_the_kernel(interface);
    return true;
  }
  if (!card.for_programs()) {
    const std::string owner =
        card.driver.empty() ? "no driver has it" : "the kernel's driver " + card.driver + " has it";
    text += fmt::format("; {}. {}", owner, advice(card, family, interface));
    return false;
  }
  text += fmt::format("; bound to {}{}", card.driver, card.iommu ? " with an IOMMU" : "");
  if (card.driver == "uio_pci_generic" && !family.uio) {
    text += ", which its driver in DPDK 22.11 does not support; see config/cards.md";
    return false;
  }
  if (card.needs_hugepages() && !hugepages) {
    text += ", which needs hugepages, and none is free; reserve some with: sysctl vm.nr_hugepages=256";
    return false;
  }
  if (card.driver == "vfio-pci" && !card.iommu) text += " in its mode without an IOMMU";
  text += card.has_rx_interrupts() && family.interrupts ? "; idle engines wait for its interrupt"
                                                        : "; without receive interrupts, so idle engines nap";
  return true;
}

CardReport check_card(const PciCard& card, bool hugepages, const InterfaceUses& uses,
                      const std::filesystem::path& root) {
  const Family* family = family_of(card, root);
  if (family == nullptr) {
    return {card.address, card.for_programs(),
            fmt::format("vendor {}; config/cards.md has no such card, so look for it in DPDK's list of drivers",
                        vendor_of(card.address, root))};
  }
  CardReport report{card.address, false, fmt::format("{} ({})", family->name, family->pmd)};
  report.ready = judge(card, *family, hugepages, interface_of_card(card.address, uses, root), report.text);
  if (!family->note.empty()) report.text += fmt::format("; {}", family->note);
  return report;
}

}  // namespace

std::vector<CardReport> check_cards(bool hugepages, const InterfaceUses& uses, const std::filesystem::path& root) {
  std::vector<CardReport> reports;
  for (const PciCard& card : ethernet_cards(root)) reports.push_back(check_card(card, hugepages, uses, root));
  return reports;
}

}  // namespace uroce::glue
