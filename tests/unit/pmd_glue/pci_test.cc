#include "pmd_glue/pci.h"

#include "pmd_glue/card_check.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::glue {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like /sys.
class Pci : public testing::Test {
 protected:
  Pci() {
    std::string path = fs::temp_directory_path() / "uroce-pci-XXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~Pci() override { fs::remove_all(root_); }

  void add(const std::string& address, const std::string& driver, bool iommu = false, const char* kind = "0x020000",
           const char* vendor = "0x1af4") {
    const fs::path folder = root_ / "bus/pci/devices" / address;
    fs::create_directories(folder);
    std::ofstream(folder / "class") << kind << '\n';
    std::ofstream(folder / "vendor") << vendor << '\n';
    std::ofstream(folder / "config") << "x";
    if (!driver.empty()) fs::create_symlink("../../../bus/pci/drivers/" + driver, folder / "driver");
    if (iommu) fs::create_symlink("../../../kernel/iommu_groups/7", folder / "iommu_group");
  }

  fs::path root_;
};

TEST_F(Pci, ReadsTheAddressOfAnArgument) {
  EXPECT_EQ(pci_address("0000:00:04.0"), "0000:00:04.0");
  EXPECT_EQ(pci_address("00:04.0"), "0000:00:04.0");
  EXPECT_EQ(pci_address("pci:0000:3b:00.1,dv_flow_en=1"), "0000:3b:00.1");
  for (const char* other : {"", "net_memif0", "auxiliary:mlx5_core.sf.4", "4.0", "00:04", "0000:00:zz.0", ":1.0"}) {
    EXPECT_EQ(pci_address(other), std::nullopt) << other;
  }
}

TEST_F(Pci, FindsTheCardsThatProgramsMayDrive) {
  add("0000:00:09.0", "vfio-pci", true);
  add("0000:00:04.0", "uio_pci_generic");
  add("0000:00:05.0", "e1000e");
  add("0000:00:06.0", "vfio-pci", true, "0x010802");
  add("0000:00:07.0", "");
  const auto cards = cards_for_programs(root_);
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[0].address, "0000:00:04.0");
  EXPECT_TRUE(cards[0].needs_hugepages());
  EXPECT_FALSE(cards[0].has_rx_interrupts());
  EXPECT_EQ(cards[1].address, "0000:00:09.0");
  EXPECT_FALSE(cards[1].needs_hugepages());
  EXPECT_TRUE(cards[1].has_rx_interrupts());
}

TEST_F(Pci, NeedsHugepagesWithoutAnIommu) {
  add("0000:00:04.0", "vfio-pci", false);
  EXPECT_TRUE(read_pci_card("0000:00:04.0", root_)->needs_hugepages());
}

TEST_F(Pci, SaysWhyACardIsNoPort) {
  add("0000:00:05.0", "e1000e");
  add("0000:00:07.0", "");
  const std::string kernels = why_no_port("0000:00:05.0", {}, root_);
  for (const char* part : {"0000:00:05.0", "e1000e", "dpdk-devbind.py -b vfio-pci 0000:00:05.0"}) {
    EXPECT_NE(kernels.find(part), std::string::npos) << kernels;
  }
  EXPECT_NE(why_no_port("0000:00:07.0", {}, root_).find("has no driver"), std::string::npos);
  EXPECT_NE(why_no_port("0000:00:08.0", {}, root_).find("there is no PCI device 0000:00:08.0"), std::string::npos);
}

/// The advice for the card with virtio-net on eth0, where its interfaces are used like this.
std::string advice_for(const fs::path& root, const InterfaceUses& uses) {
  for (const CardReport& one : check_cards(true, uses, root)) {
    if (one.address == "0000:00:03.0") return one.text + " | " + why_no_port(one.address, uses, root);
  }
  return "";
}

TEST_F(Pci, DoesNotAdviseToCutTheMachineOff) {
  add("0000:00:03.0", "virtio-pci");
  fs::create_directories(root_ / "bus/pci/devices/0000:00:03.0/virtio0/net/eth0");
  fs::create_directories(root_ / "class/net/eth0");
  fs::create_directories(root_ / "class/net/br0");
  fs::create_directory_symlink("../br0", root_ / "class/net/eth0/upper_br0");
  fs::create_directory_symlink("../vlan7", root_ / "class/net/br0/upper_vlan7");
  const InterfaceUse route{.default_route = true}, session{.connections = true, .addresses = "192.0.2.1"};
  struct Row {
    InterfaceUses uses;
    const char* needed;
    const char* reason;
  };
  for (const Row& row : {Row{{{"eth0", route}}, "eth0", "has the default route"},
                         Row{{{"eth0", session}}, "eth0", "carries TCP connections"},
                         Row{{{"eth0", session}, {"br0", route}}, "br0", "has the default route"},
                         Row{{{"vlan7", session}}, "vlan7", "carries TCP connections"}}) {
    const std::string said = advice_for(root_, row.uses);
    for (const std::string& part : {fmt::format("its interface {} {}", row.needed, row.reason),
                                    fmt::format("uroced --interface {}", row.needed)}) {
      EXPECT_THAT(said, testing::HasSubstr(part));
    }
    EXPECT_THAT(said, testing::HasSubstr("would cut this machine off"));
    EXPECT_THAT(said, testing::Not(testing::HasSubstr("devbind"))) << "no line that does it";
  }
  const std::string spare = advice_for(root_, {{"eth0", {.addresses = "192.0.2.1"}}, {"eth9", route}});
  EXPECT_THAT(spare,
              testing::HasSubstr("uroced --interface eth0. To give it to uroced, which ends the interface eth0 with "
                                 "192.0.2.1: modprobe"));
  EXPECT_THAT(spare, testing::Not(testing::HasSubstr("cut")));
}

TEST_F(Pci, ADriverBesideTheKernelsTakesTheFramesOfANeededInterface) {
  add("0000:00:07.0", "mlx5_core", false, "0x020000", "0x15b3");
  fs::create_directories(root_ / "bus/pci/devices/0000:00:07.0/net/eth1");
  const auto needed = check_cards(true, {{"eth1", {.default_route = true}}}, root_).at(0);
  EXPECT_THAT(needed.text, testing::HasSubstr("cut this machine off, because eth1 has the default route"));
  EXPECT_THAT(check_cards(true, {}, root_).at(0).text, testing::Not(testing::HasSubstr("cut")));
}

TEST_F(Pci, KeepsASecondUserOffACard) {
  add("0000:00:04.0", "uio_pci_generic");
  const PciCard card = *read_pci_card("0000:00:04.0", root_);
  PciLocks second;
  {
    PciLocks first;
    ASSERT_TRUE(first.add(card, root_));
    const auto refused = second.add(card, root_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);
    EXPECT_NE(refused.error().text.find("0000:00:04.0"), std::string::npos);
  }
  EXPECT_TRUE(second.add(card, root_));
}

TEST_F(Pci, ChecksWhatEachCardNeeds) {
  add("0000:00:03.0", "virtio-pci");
  add("0000:00:04.0", "uio_pci_generic");
  add("0000:00:05.0", "vfio-pci", true, "0x020000", "0x8086");
  add("0000:00:06.0", "uio_pci_generic", false, "0x020000", "0x1d0f");
  add("0000:00:07.0", "mlx5_core", false, "0x020000", "0x15b3");
  add("0000:00:08.0", "", true, "0x020000", "0x15ad");
  add("0000:00:09.0", "tg9", false, "0x020000", "0x1234");
  const auto ready = [this](bool hugepages) {
    std::vector<bool> list;
    for (const CardReport& one : check_cards(hugepages, {}, root_)) list.push_back(one.ready);
    return list;
  };
  EXPECT_EQ(ready(true), (std::vector<bool>{false, true, true, false, true, false, false}));
  EXPECT_EQ(ready(false), (std::vector<bool>{false, false, true, false, true, false, false}));
  const auto cards = check_cards(false, {}, root_);
  EXPECT_THAT(cards[0].text,
              testing::HasSubstr("modprobe uio_pci_generic && dpdk-devbind.py -b uio_pci_generic 0000:00:03.0"));
  EXPECT_THAT(cards[1].text, testing::HasSubstr("sysctl vm.nr_hugepages"));
  EXPECT_THAT(cards[2].text, testing::HasSubstr("wait for its interrupt"));
  EXPECT_THAT(cards[3].text, testing::HasSubstr("does not support"));
  EXPECT_THAT(cards[5].text, testing::HasSubstr("no driver has it. To give it to uroced: modprobe vfio-pci"));
  EXPECT_THAT(cards[6].text, testing::HasSubstr("vendor 0x1234"));
}

}  // namespace
}  // namespace uroce::glue
