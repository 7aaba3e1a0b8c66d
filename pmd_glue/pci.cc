#include "pmd_glue/pci.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace uroce::glue {

namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& address, const fs::path& root) { return root / "bus/pci/devices" / address; }

bool is_hex(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

}  // namespace

bool PciCard::for_programs() const {
  constexpr std::array kDrivers{"vfio-pci", "uio_pci_generic", "igb_uio"};
  return std::ranges::find(kDrivers, driver) != kDrivers.end();
}

bool PciCard::keeps_kernel_driver() const { return driver == "mlx4_core" || driver == "mlx5_core" || driver == "mana"; }

std::optional<std::string> pci_address(std::string_view allow) {
  allow = allow.substr(0, allow.find(','));
  if (allow.starts_with("pci:")) allow.remove_prefix(4);
  // [domain:]bus:device.function
  const auto dot = allow.rfind('.');
  const auto device = dot == allow.npos ? allow.npos : allow.rfind(':', dot);
  if (device == allow.npos || device == 0) return std::nullopt;
  const auto bus = allow.rfind(':', device - 1);
  const std::string_view domain = bus == allow.npos ? "0000" : allow.substr(0, bus);
  const std::string_view bus_number =
      allow.substr(bus == allow.npos ? 0 : bus + 1, device - (bus == allow.npos ? 0 : bus + 1));
  const std::string_view slot = allow.substr(device + 1, dot - device - 1), function = allow.substr(dot + 1);
  for (const std::string_view part : {domain, bus_number, slot, function}) {
    if (!is_hex(part)) return std::nullopt;
  }
  return fmt::format("{:0>4}:{:0>2}:{:0>2}.{}", domain, bus_number, slot, function);
}

std::optional<PciCard> read_pci_card(const std::string& address, const fs::path& root) {
  std::error_code error;
  const fs::path folder = folder_of(address, root);
  if (!fs::exists(folder, error)) return std::nullopt;
  PciCard card;
  card.address = address;
  const fs::path driver = fs::read_symlink(folder / "driver", error);
  if (!error) card.driver = driver.filename();
  card.iommu = fs::is_symlink(folder / "iommu_group", error);
  return card;
}

std::vector<PciCard> ethernet_cards(const fs::path& root) {
  std::vector<PciCard> cards;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "bus/pci/devices", error)) {
    std::string kind;
    std::ifstream(entry.path() / "class") >> kind;
    if (!kind.starts_with("0x0200")) continue;
    if (auto card = read_pci_card(entry.path().filename(), root)) cards.push_back(std::move(*card));
  }
  std::ranges::sort(cards, {}, &PciCard::address);
  return cards;
}

std::vector<PciCard> cards_for_programs(const fs::path& root) {
  auto cards = ethernet_cards(root);
  std::erase_if(cards, [](const PciCard& card) { return !card.for_programs(); });
  return cards;
}

std::string why_no_port(const std::string& address, const InterfaceUses& uses, const fs::path& root) {
  const auto card = read_pci_card(address, root);
  if (!card) {
    return fmt::format("there is no PCI device {}; lspci -nn -d ::0200 lists this machine's Ethernet cards", address);
  }
  if (card->driver.empty()) {
    return fmt::format("card {} has no driver; bind it with: dpdk-devbind.py -b vfio-pci {}", address, address);
  }
  if (card->for_programs()) {
    return fmt::format(
        "DPDK has no driver for card {}, or the driver could not start it; dpdk-devbind.py --status and "
        "config/cards.md say which cards it drives",
        address);
  }
  const auto interface = interface_of_card(address, uses, root);
  if (interface && !interface->need().empty()) {
    return fmt::format(
        "card {0} belongs to the kernel's driver {1}, and giving it to DPDK would cut this machine off: its interface "
        "{2} {3}. Leave it with the kernel, and use --interface {2} in place of the card",
        address, card->driver, interface->name, interface->need());
  }
  return fmt::format(
      "card {} belongs to the kernel's driver {}; give it to programs with: dpdk-devbind.py -b vfio-pci "
      "{} (without an IOMMU: -b uio_pci_generic). Its network interface{} ends then",
      address, card->driver, address, interface ? " " + interface->name : "");
}

PciLocks::~PciLocks() {
  for (const int fd : fds_) ::close(fd);
}

Result<void> PciLocks::add(const PciCard& card, const fs::path& root) {
  const int fd = ::open((folder_of(card.address, root) / "config").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};  // EAL will say why
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    fds_.push_back(fd);
    return {};
  }
  const int code = errno;
  ::close(fd);
  if (code != EWOULDBLOCK) return {};
  return fail(EBUSY,
              fmt::format("card {} is used by another process of uroce; end that, or choose another card with -a",
                          card.address));
}

}  // namespace uroce::glue
