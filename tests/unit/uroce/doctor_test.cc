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
  facts.af_xdp = true;
  facts.autogroup = false;
  facts.huge_pages = {{.page_bytes = 2 << 20, .reserved = 512, .free = 100, .mounted = true}};
  facts.interfaces = {{.name = "eth0", .up = true, .mtu = 4200, .udp_segmentation = true}};
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
  facts.packet_sockets = false;
  EXPECT_EQ(judge_capabilities(facts).verdict, Verdict::good);
  facts.daemon_error = ENOENT;
  EXPECT_EQ(judge_capabilities(facts).verdict, Verdict::slow);
  EXPECT_NE(judge_capabilities(facts).remedy.find("CAP_NET_RAW"), std::string::npos);
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
  facts.interfaces[0].udp_segmentation.reset();
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
