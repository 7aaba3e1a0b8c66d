#include "uroce/doctor.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>

namespace uroce::cli {
namespace {

/// A machine on which nothing is amiss.
Facts healthy() {
  Facts facts;
  facts.kernel_major = 6;
  facts.kernel_minor = 2;
  facts.packet_sockets = true;
  facts.large_buffers = true;
  facts.receive_buffer_limit = 212992;
  facts.nvmf_installed = true;
  facts.af_xdp = true;
  facts.autogroup = false;
  facts.huge_pages = {{.page_bytes = 2 << 20, .reserved = 512, .free = 100, .mounted = true}};
  facts.interfaces = {
      {.name = "eth0", .up = true, .mtu = 4200, .udp_segmentation = true, .checksums = true, .scatter_gather = true}};
  facts.library_version = facts.daemon_version = "1.2.3";
  DeviceRow device;
  device.name = "uroce0";
  device.kernel_interface = "eth0";
  device.link_up = true;
  device.active_mtu = Mtu::mtu4096;
  device.gids = {Gid::from_ipv4(0x0a000001)};
  facts.devices = {device};
  facts.counters = {{"uroce0", {{"neighbour_failed", 0}, {"drop_icrc", 0}}}};
  return facts;
}

TEST(Doctor, AHealthyMachineNeedsNothing) {
  const auto findings = judge(healthy());
  EXPECT_FALSE(something_is_bad(findings));
  for (const Finding& one : findings) {
    EXPECT_EQ(one.verdict, Verdict::good) << one.text;
    EXPECT_EQ(one.remedy, "") << one.text;
    EXPECT_FALSE(one.text.empty() || one.text.ends_with('.'));
  }
}

TEST(Doctor, Restart) {
  Facts facts = healthy();
  EXPECT_TRUE(judge_restart(facts).empty());
  facts.restart = RestartRow{.kept = true};
  EXPECT_EQ(judge_restart(facts).at(0).verdict, Verdict::good);
  facts.restart->obstacles = {"port memif0 is no interface of the kernel",
                              "it has 9 of 10 descriptors; raise the limit"};
  const auto found = judge_restart(facts);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "the next restart ends connections: port memif0 is no interface of the kernel");
  EXPECT_EQ(found[1].verdict, Verdict::slow);
  EXPECT_EQ(found[1].remedy, "raise the limit");
}

TEST(Doctor, Kernel) {
  Facts facts = healthy();
  facts.kernel_minor = 1;
  const Finding old = judge_kernel(facts);
  EXPECT_EQ(old.verdict, Verdict::slow);
  EXPECT_EQ(old.text, "Linux 6.1 cannot send runs of packets as one through packet sockets");
  facts.devices[0].sending = Sending::super_frames;  // a distribution's
  EXPECT_EQ(judge_kernel(facts).verdict, Verdict::good);
  facts.devices[0].sending = Sending::by_driver;
  facts.kernel_major = 7;
  facts.kernel_minor = 0;
  EXPECT_EQ(judge_kernel(facts).verdict, Verdict::good);
  facts.devices[0].sending = Sending::single_by_kernel;
  EXPECT_EQ(judge_kernel(facts).text, "Linux 7.0 cannot send runs of packets as one through packet sockets");
  facts.af_xdp = false;
  EXPECT_EQ(judge_af_xdp(facts).verdict, Verdict::slow);
}

TEST(Doctor, Autogroups) {
  Facts facts = healthy();
  facts.autogroup.reset();
  EXPECT_EQ(judge_autogroup(facts).verdict, Verdict::good);
  facts.autogroup = true;
  EXPECT_NE(judge_autogroup(facts).remedy.find("kernel.sched_autogroup_enabled=0"), std::string::npos);
}

TEST(Doctor, CapabilitiesMatterOnlyWithoutADaemon) {
  Facts facts = healthy();
  facts.packet_sockets = facts.large_buffers = false;
  ASSERT_EQ(judge_capabilities(facts).size(), 2u);
  EXPECT_EQ(judge_capabilities(facts)[0].verdict, Verdict::good);
  EXPECT_EQ(judge_capabilities(facts)[1].verdict, Verdict::good);
  facts.daemon_error = ENOENT;
  const Finding raw = judge_capabilities(facts)[0], admin = judge_capabilities(facts)[1];
  EXPECT_EQ(raw.verdict, Verdict::slow);
  EXPECT_NE(raw.remedy.find("with CAP_NET_RAW"), std::string::npos);
  EXPECT_EQ(admin.verdict, Verdict::slow);
  EXPECT_EQ(admin.text,
            "this user's ports on interfaces of the kernel may let 416 KiB of frames wait, and no more "
            "(CAP_NET_ADMIN)");
  EXPECT_NE(admin.remedy.find("with CAP_NET_ADMIN; or sysctl -w net.core.rmem_max="), std::string::npos);
}

TEST(Doctor, EachCapabilityByItself) {
  Facts facts = healthy();
  facts.daemon_error = ENOENT;
  facts.large_buffers = false;
  EXPECT_EQ(judge_capabilities(facts)[0].verdict, Verdict::good);
  EXPECT_EQ(judge_capabilities(facts)[1].verdict, Verdict::slow);
  facts.receive_buffer_limit = 32 << 20;
  EXPECT_EQ(judge_capabilities(facts)[1].verdict, Verdict::good) << "the limit is enough";
  facts.large_buffers = true;
  facts.packet_sockets = false;
  EXPECT_EQ(judge_capabilities(facts)[0].verdict, Verdict::slow);
  EXPECT_EQ(judge_capabilities(facts)[1].verdict, Verdict::good);
}

TEST(Doctor, KernelRoceOnADevicesInterface) {
  Facts facts = healthy();
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::good);
  facts.kernel_roce = {{"rxe0", "eth0"}};
  facts.roce_port_taken = true;
  ASSERT_EQ(judge_kernel_roce(facts).size(), 1u);
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::bad);
  EXPECT_EQ(judge_kernel_roce(facts)[0].text,
            "the kernel's RoCE driver has rxe0 on eth0, too, and answers peers of device uroce0 at UDP port 4791");
  EXPECT_EQ(judge_kernel_roce(facts)[0].remedy, "rdma link delete rxe0, or give uroced another interface");
  // A device with addresses of its own has the interface's Ethernet address.
  facts.devices[0].kernel_interface = "";
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::good) << "it is on another interface";
  facts.devices[0].mac = facts.interfaces[0].mac = EthAddr{{2, 0, 0, 0, 0, 1}};
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::bad);
}

TEST(Doctor, TheRocePortIsTakenBeforeADaemonStarts) {
  Facts facts = healthy();
  facts.daemon_error = ENOENT;
  facts.devices.clear();
  facts.kernel_roce = {{"rxe0", "eth0"}};
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::slow);
  EXPECT_NE(judge_kernel_roce(facts)[0].remedy.find("rdma link delete rxe0"), std::string::npos);
  facts.kernel_roce.clear();
  facts.roce_port_taken = true;
  EXPECT_EQ(judge_kernel_roce(facts)[0].verdict, Verdict::slow);
  EXPECT_EQ(judge_kernel_roce(facts)[0].remedy, "look for it with ss -Hulnp 'sport = 4791', and end it");
}

TEST(Doctor, ADaemonInAnotherNetworkNamespace) {
  Facts facts = healthy();
  EXPECT_TRUE(judge_network(facts).empty());
  facts.daemon_process = 12;
  facts.network = NetworkSeen::entered;
  ASSERT_EQ(judge_network(facts).size(), 1u);
  EXPECT_EQ(judge_network(facts)[0].verdict, Verdict::good);
  EXPECT_EQ(judge_network(facts)[0].text,
            "the daemon (process 12) is in another network namespace, and its interfaces are judged there");
  EXPECT_EQ(judge_kernel_roce(facts)[0].text, "nothing else has UDP port 4791 in the daemon's network namespace");
  facts.devices[0].active_mtu = Mtu::mtu1024;
  facts.interfaces[0].mtu = 1500;
  facts.interfaces[0].udp_segmentation = false;
  EXPECT_NE(judge_devices(facts)[0].remedy.find("nsenter -t 12 -n ip link set eth0 mtu 4200"), std::string::npos);
  EXPECT_EQ(judge_interfaces(facts)[0].remedy,
            "where the card can, nsenter -t 12 -n ethtool -K eth0 tx-udp-segmentation on");
}

TEST(Doctor, ANetworkNamespaceThatIsClosed) {
  Facts facts = healthy();
  facts.daemon_process = 12;
  facts.network = NetworkSeen::hidden;
  facts.interfaces.clear();
  facts.devices[0].active_mtu = Mtu::mtu1024;
  ASSERT_EQ(judge_network(facts).size(), 1u);
  EXPECT_EQ(judge_network(facts)[0].verdict, Verdict::slow);
  EXPECT_EQ(judge_network(facts)[0].remedy, "as root, nsenter -t 12 -n uroce doctor");
  EXPECT_TRUE(judge_kernel_roce(facts).empty());
  EXPECT_TRUE(judge_interfaces(facts).empty());
  EXPECT_EQ(judge_devices(facts)[0].text, "its path MTU is 1024") << "not by an interface that has the same name here";
  EXPECT_NE(judge_devices(facts)[0].remedy.find("nsenter -t 12 -n ip link set eth0 mtu 4200"), std::string::npos);
  facts.daemon_process = 0;
  EXPECT_EQ(judge_network(facts)[0].remedy, "give uroce doctor in the daemon's container");
}

TEST(Doctor, NeighboursThatDoNotAnswer) {
  Facts facts = healthy();
  EXPECT_TRUE(judge_neighbours(facts).empty());
  for (uint32_t i = 1; i <= 6; ++i) facts.interfaces[0].failed_neighbours.push_back(Gid::from_ipv4(0x0a000000 + i));
  facts.peers = {Gid::from_ipv4(0x0a000002), Gid::from_ipv4(0x0a0000ff)};
  const auto findings = judge_neighbours(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].verdict, Verdict::bad);
  EXPECT_EQ(findings[0].topic, "interface eth0");
  EXPECT_EQ(findings[0].text,
            "queue pairs have peers that do not answer the kernel's search for their Ethernet address (FAILED): "
            "10.0.0.2");
  EXPECT_EQ(findings[1].verdict, Verdict::slow);
  EXPECT_EQ(findings[1].text,
            "the kernel found no Ethernet address of 10.0.0.1, 10.0.0.3, 10.0.0.4, 10.0.0.5 and 1 more (FAILED)");
  EXPECT_NE(findings[1].remedy.find("ip neigh show dev eth0 nud failed"), std::string::npos);
  facts.devices.clear();
  EXPECT_TRUE(judge_neighbours(facts).empty()) << "an interface without a device";
}

TEST(Doctor, IoUringIsForTheNvmeTarget) {
  Facts facts = healthy();
  EXPECT_EQ(judge_io_uring(facts)[0].verdict, Verdict::good);
  facts.io_uring_disabled = 2;
  facts.io_uring_error = EPERM;
  EXPECT_EQ(judge_io_uring(facts)[0].verdict, Verdict::slow);
  EXPECT_EQ(judge_io_uring(facts)[0].text,
            "the kernel allows it to nobody (kernel.io_uring_disabled is 2), so uroce_nvmf cannot serve disks");
  EXPECT_EQ(judge_io_uring(facts)[0].remedy, "sysctl -w kernel.io_uring_disabled=0");
  facts.io_uring_disabled = 1;
  facts.io_uring_error = 0;
  EXPECT_EQ(judge_io_uring(facts)[0].verdict, Verdict::slow) << "root may, and the target is not root";
  EXPECT_NE(judge_io_uring(facts)[0].remedy.find("kernel.io_uring_group"), std::string::npos);
  facts.io_uring_disabled = 0;
  facts.io_uring_error = EPERM;
  EXPECT_EQ(judge_io_uring(facts)[0].text,
            "this user gets none (Operation not permitted), so its uroce_nvmf cannot serve disks");
  facts.nvmf_installed = false;
  EXPECT_TRUE(judge_io_uring(facts).empty());
}

TEST(Doctor, AStoppedDaemon) {
  Facts facts = healthy();
  facts.daemon_error = ETIMEDOUT;
  facts.daemon_text = "the uroce daemon at /s (process 12) is stopped";
  facts.daemon_stopped = StoppedProcess{.id = 12};
  EXPECT_EQ(judge_daemon(facts).verdict, Verdict::bad);
  EXPECT_EQ(judge_daemon(facts).text, facts.daemon_text);
  EXPECT_EQ(judge_daemon(facts).remedy, "kill -CONT 12, or restart uroced");
  facts.daemon_stopped->traced = true;
  EXPECT_EQ(judge_daemon(facts).remedy, "continue it in the debugger, or end the debugger");
}

TEST(Doctor, HugePages) {
  Facts facts = healthy();
  ASSERT_EQ(judge_huge_pages(facts).size(), 1u);
  EXPECT_EQ(judge_huge_pages(facts)[0].text, "512 of 2.0 MiB reserved, 100 free");
  facts.huge_pages[0].free = 0;
  EXPECT_EQ(judge_huge_pages(facts)[0].verdict, Verdict::good) << "the daemon has them";
  facts.daemon_error = ENOENT;
  EXPECT_EQ(judge_huge_pages(facts)[0].verdict, Verdict::slow);
  facts.huge_pages[0] = {.page_bytes = 2 << 20, .reserved = 5, .free = 5, .mounted = false};
  EXPECT_NE(judge_huge_pages(facts)[0].remedy.find("hugeadm --create-mounts"), std::string::npos);
  facts.huge_pages[0].reserved = 0;
  EXPECT_NE(judge_huge_pages(facts)[0].remedy.find("config/hugepages.sh"), std::string::npos);
  facts.huge_pages.clear();
  EXPECT_EQ(judge_huge_pages(facts)[0].text, "this kernel has none");
}

TEST(Doctor, ADaemonThatIsMissingOrOlder) {
  Facts facts = healthy();
  facts.daemon_version = "1.2.2";
  EXPECT_EQ(judge_daemon(facts).text, "uroced is 1.2.2, and this tool 1.2.3");
  EXPECT_EQ(judge_daemon(facts).verdict, Verdict::slow);
  facts.daemon_error = EPROTO;
  facts.daemon_text = "the application's uroce library is newer; upgrade the daemon (uroced)";
  EXPECT_EQ(judge_daemon(facts).verdict, Verdict::bad);
  EXPECT_EQ(judge_daemon(facts).text, facts.daemon_text);
  EXPECT_TRUE(something_is_bad(judge(facts)));
}

TEST(Doctor, Devices) {
  Facts facts = healthy();
  facts.devices[0].link_up = false;
  facts.devices[0].gids = {Gid{}};
  facts.devices[0].active_mtu = Mtu::mtu1024;
  facts.interfaces[0].mtu = 1500;
  facts.counters[0].counters = {{"neighbour_failed", 3},   {"address_conflicts", 1}, {"drop_icrc", 2},
                                {"drop_vlan_mismatch", 1}, {"kif_rx_lost", 9},       {"port_buffers_missing", 4}};
  const auto findings = judge_devices(facts);
  ASSERT_EQ(findings.size(), 9u);
  EXPECT_EQ(findings[0].text, "its link is down");
  EXPECT_EQ(findings[0].remedy, "ip link set eth0 up, or look at the cable");
  EXPECT_EQ(findings[1].verdict, Verdict::bad);
  EXPECT_EQ(findings[2].text, "its path MTU is 1024, because the MTU of eth0 is 1500 bytes");
  EXPECT_EQ(findings[3].text, "3 times that nobody answered for an address since uroced began (neighbour_failed)");
  facts.interfaces[0].mtu = 1000;  // since uroced began
  EXPECT_EQ(judge_devices(facts)[2].verdict, Verdict::bad);
  EXPECT_EQ(judge_devices(facts)[2].text,
            "its path MTU is 1024, and the MTU of eth0 is 1000 bytes now: full packets are lost");
  facts.devices[0].kernel_interface = "";
  EXPECT_NE(judge_devices(facts)[2].remedy.find("device.mtu = 4200"), std::string::npos);
  EXPECT_EQ(judge_devices(facts)[1].remedy, "set device.addresses");
}

TEST(Doctor, FramesThatLeaveOneByOne) {
  Facts facts = healthy();
  for (const Sending good : {Sending::by_driver, Sending::super_frames}) {
    facts.devices[0].sending = good;
    EXPECT_EQ(judge_devices(facts).size(), 1u);
  }
  facts.devices[0].sending = Sending::single_by_choice;
  ASSERT_EQ(judge_devices(facts).size(), 2u);
  EXPECT_EQ(judge_devices(facts)[1].verdict, Verdict::slow);
  EXPECT_EQ(judge_devices(facts)[1].text, "its frames leave one by one, because of super_frames=no");
  facts.devices[0].sending = Sending::single_refused;
  EXPECT_EQ(judge_devices(facts)[1].text, "the kernel refused its super-frames, so that frames leave one by one");
}

TEST(Doctor, Offloads) {
  Facts facts = healthy();
  facts.interfaces[0].udp_segmentation = false;
  ASSERT_EQ(judge_interfaces(facts).size(), 1u);
  EXPECT_EQ(judge_interfaces(facts)[0].remedy, "where the card can, ethtool -K eth0 tx-udp-segmentation on");
  facts.interfaces[0].checksums = false;
  EXPECT_EQ(judge_interfaces(facts)[0].text,
            "the kernel cuts runs of packets up in software (tx-udp-segmentation is off, because it needs the checksum "
            "offload, which is off)");
  EXPECT_EQ(judge_interfaces(facts)[0].remedy, "where the card can, ethtool -K eth0 tx on tx-udp-segmentation on");
  facts.interfaces[0].scatter_gather = false;
  ASSERT_EQ(judge_interfaces(facts).size(), 2u);
  EXPECT_EQ(judge_interfaces(facts)[1].remedy, "where the card can, ethtool -K eth0 tx-scatter-gather on");
  facts.interfaces[0].udp_segmentation.reset();
  facts.interfaces[0].scatter_gather.reset();
  EXPECT_TRUE(judge_interfaces(facts).empty());
}

TEST(Doctor, SaysSoInTextAndJson) {
  const std::vector<Finding> findings{{"a", Verdict::bad, "b", "c"}, {"d", Verdict::good, "e", ""}};
  EXPECT_EQ(findings_text(findings), "bad  a: b.\n      To do: c.\ngood  d: e.\n");
  const auto json = nlohmann::json::parse(findings_json(findings));
  EXPECT_EQ(json[0]["verdict"], "bad");
  EXPECT_EQ(json[0]["remedy"], "c");
  EXPECT_TRUE(json[1]["remedy"].is_null());
}

}  // namespace
}  // namespace uroce::cli
