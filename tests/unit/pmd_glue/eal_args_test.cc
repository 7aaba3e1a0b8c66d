#include "pmd_glue/eal_args.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

namespace uroce::glue {
namespace {

constexpr HostFacts kHuge{true, true};

bool contains(const std::vector<std::string>& args, std::string_view arg) {
  return std::ranges::find(args, arg) != args.end();
}

bool contains_prefix(const std::vector<std::string>& args, std::string_view prefix) {
  return std::ranges::any_of(args, [&](const std::string& a) { return a.starts_with(prefix); });
}

std::string error_of(const std::vector<std::string>& args) {
  const auto plan = plan_eal(args, kHuge);
  if (plan) return "";
  EXPECT_EQ(plan.error().code, EINVAL);
  return plan.error().text;
}

TEST(EalArgs, NamesWhatIsWrong) {
  EXPECT_NE(error_of({"--frobnicate"}).find("'--frobnicate'"), std::string::npos);
  EXPECT_NE(error_of({"-z"}).find("'-z'"), std::string::npos);
  EXPECT_NE(error_of({"-l", "0", "65536"}).find("'65536' is not an EAL option"), std::string::npos);
  EXPECT_NE(error_of({"--vdev"}).find("'--vdev' needs a value"), std::string::npos);
  EXPECT_NE(error_of({"-l"}).find("'-l' needs a value"), std::string::npos);
  EXPECT_NE(error_of({"--no-pci=1"}).find("'--no-pci' takes no value"), std::string::npos);
  EXPECT_NE(error_of({"--no"}).find("ambiguous"), std::string::npos);
  EXPECT_NE(error_of({""}).find("''"), std::string::npos);
  EXPECT_NE(error_of({"--"}).find("'--'"), std::string::npos);
}

TEST(EalArgs, TakesEveryForm) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"-l", "0,1"},
                                               {"-l0-1"},
                                               {"--lcores=(0-1)@0"},
                                               {"--vd", "net_null0"},
                                               {"--huge-unlink"},
                                               {"--huge-unlink=never"},
                                               {"-a", "0000:00:1f.0"},
                                               {"--log-level=8"},
                                               {"-n", "2", "-v"}}) {
    EXPECT_EQ(error_of(args), "") << args[0];
  }
}

TEST(EalArgs, KnowsWhoNamesLcores) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"-l", "0,1"},
                                               {"-l0-1"},
                                               {"-m", "64", "--lcores", "(0-1)@0"},
                                               {"--lc=0"},
                                               {"-c", "3"},
                                               {"-S2"}}) {
    EXPECT_TRUE(names_lcores(args)) << args[0];
  }
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"--log-level=8"},
                                               {"--vdev", "-l"},
                                               {"-a", "0000:03:00.0"},
                                               {"--main-lcore", "1"}}) {
    EXPECT_FALSE(names_lcores(args));
  }
  EXPECT_EQ(fault_of_lcores("(0,1)@2-3"), "");
  EXPECT_NE(fault_of_lcores("0;1").find("--lcores"), std::string_view::npos);
}

TEST(EalArgs, ArePrivateOnLcoresThatWereNamed) {
  EXPECT_EQ(private_arguments("1-2"), (std::vector<std::string>{"--lcores=1-2", "--in-memory", "--no-telemetry"}));
  EXPECT_TRUE(names_lcores(private_arguments()));
}

TEST(EalArgs, KeepsInterfacesOfTheKernelFromEal) {
  const auto plan = plan_eal({"-l", "0", "--vdev", "net_uroce_kif0,iface=eth0", "--vdev=net_null0", "-m64"}, kHuge);
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->interfaces.size(), 1u);
  EXPECT_EQ(plan->interfaces[0].port, "net_uroce_kif0");
  EXPECT_EQ(plan->interfaces[0].interface, "eth0");
  EXPECT_TRUE(plan->interfaces[0].super_frames);
  EXPECT_EQ(plan->vdevs, std::vector<std::string>{"net_null0"});
  EXPECT_EQ((std::vector<std::string>{plan->args.begin(), plan->args.begin() + 4}),
            (std::vector<std::string>{"-l", "0", "--vdev=net_null0", "-m64"}));
  EXPECT_TRUE(contains(plan->args, "--no-pci"));
  EXPECT_FALSE(plan->every_card);
  const auto single = plan_eal({"--vdev=net_uroce_kif0,iface=eth0,super_frames=no", "-a", "0000:00:1f.0"}, kHuge);
  ASSERT_TRUE(single) << single.error().text;
  EXPECT_FALSE(single->interfaces.at(0).super_frames);
  EXPECT_FALSE(contains(single->args, "--no-pci"));
  for (const char* wrong : {"net_uroce_kif0", "net_uroce_kif0,iface=", "net_uroce_kif0,iface=eth0,mtu=9",
                            "net_uroce_kif0,iface=eth0,super_frames=maybe"}) {
    EXPECT_NE(error_of({"--vdev", wrong}).find("iface=NAME"), std::string::npos) << wrong;
  }
}

TEST(EalArgs, FallsBackToSmallPages) {
  const auto plan = plan_eal({"-l", "0"}, HostFacts{false, true});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(contains(plan->args, "--no-huge"));
  ASSERT_EQ(plan->notes.size(), 1u);
  EXPECT_NE(plan->notes[0].find("no hugepage is free"), std::string::npos);
  for (const char* said : {"--no-huge", "-m64", "--socket-mem=64", "--huge-dir=/x"}) {
    const auto asked = plan_eal({said}, HostFacts{false, false});
    ASSERT_TRUE(asked);
    EXPECT_TRUE(asked->notes.empty()) << said << ": the user has decided";
  }
  EXPECT_TRUE(plan_eal({}, HostFacts{true, false})->notes.size() == 1) << "nowhere to take them from";
  EXPECT_TRUE(plan_eal({"--in-memory"}, HostFacts{true, false})->notes.empty()) << "memfd needs no mount";
}

TEST(EalArgs, TakesSmallPagesWhereHugePagesAreRefused) {
  for (const char* said : {"--in-memory", "--no-telemetry"}) {
    const auto plan = plan_eal({said}, HostFacts{.hugepages_refused = true});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(contains(plan->args, "--no-huge"));
    ASSERT_EQ(plan->notes.size(), 1u);
    EXPECT_NE(plan->notes[0].find("get_mempolicy"), std::string::npos);
  }
}

TEST(EalArgs, NeedsNoMountOfAnotherUser) {
  const HostFacts closed{.hugetlbfs_mounted = false, .hugetlbfs_closed = true};
  EXPECT_TRUE(contains(plan_eal({"--in-memory"}, closed)->args, "--huge-dir=/dev/null"));
  EXPECT_TRUE(contains(plan_eal({"--in-memory", "-m", "64"}, closed)->args, "--huge-dir=/dev/null"));
  EXPECT_FALSE(contains_prefix(plan_eal({"--in-memory"}, kHuge)->args, "--huge-dir"));
  EXPECT_FALSE(contains_prefix(plan_eal({"--in-memory", "--no-huge"}, closed)->args, "--huge-dir"));
  EXPECT_FALSE(contains(plan_eal({"--in-memory", "--huge-dir=/x"}, closed)->args, "--huge-dir=/dev/null"));
  EXPECT_TRUE(contains(plan_eal({}, closed)->args, "--no-huge")) << "without --in-memory EAL needs a mount";
}

TEST(EalArgs, ReconcilesInMemoryWithSmallPages) {
  const auto plan = plan_eal({"--in-memory", "--no-huge"}, kHuge);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(contains(plan->args, "--in-memory")) << "EAL refuses the two together";
  EXPECT_TRUE(contains(plan->args, "--no-shconf")) << "--in-memory says that nothing is shared";
  EXPECT_TRUE(plan->shares_nothing);
  const auto small = plan_eal({"--in-memory"}, HostFacts{false, false});
  EXPECT_FALSE(contains(small->args, "--in-memory"));
  EXPECT_TRUE(contains(small->args, "--no-shconf")) << "a user without root may make no runtime directory";
  EXPECT_TRUE(small->shares_nothing);
  EXPECT_TRUE(contains(plan_eal({"--in-memory"}, kHuge)->args, "--in-memory"));
}

TEST(EalArgs, CompletesWhatIsLeftOpen) {
  const auto plan = plan_eal({"-l", "0"}, kHuge);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(contains_prefix(plan->args, "--file-prefix=uroce-"));
  EXPECT_TRUE(plan->own_prefix);
  EXPECT_FALSE(plan->shares_nothing);
  EXPECT_TRUE(contains(plan->args, "--iova-mode=va"));
  EXPECT_TRUE(contains_prefix(plan->args, "--log-level"));
  const auto said = plan_eal({"--file-prefix", "mine", "--iova-mode=pa", "--log-level", "8"}, kHuge);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->args.size(), 5u) << "nothing to add";
  EXPECT_FALSE(said->own_prefix);
  EXPECT_FALSE(contains_prefix(plan_eal({"-a", "0000:01:00.0"}, kHuge)->args, "--iova-mode")) << "the bus knows";
  HostFacts with_cards = kHuge;
  with_cards.cards = true;
  EXPECT_FALSE(contains_prefix(plan_eal({"-l", "0"}, with_cards)->args, "--iova-mode")) << "EAL takes the cards";
  EXPECT_TRUE(contains(plan_eal({"--no-pci"}, with_cards)->args, "--iova-mode=va"));
}

TEST(EalArgs, NamesTheCards) {
  const auto some = plan_eal({"-a", "01:00.0,x=y", "--allow=0000:02:00.1", "-a", "auxiliary:mlx5_core.sf.4"}, kHuge);
  ASSERT_TRUE(some);
  EXPECT_EQ(some->cards, (std::vector<std::string>{"0000:01:00.0", "0000:02:00.1"}));
  EXPECT_FALSE(some->every_card);
  EXPECT_TRUE(plan_eal({}, kHuge)->every_card);
  EXPECT_FALSE(plan_eal({"--no-pci"}, kHuge)->every_card);
  EXPECT_TRUE(plan_eal({}, kHuge)->hugepages);
  EXPECT_FALSE(plan_eal({"--no-huge"}, kHuge)->hugepages);
}

TEST(EalArgs, GivesVirtualDevicesRoomForAFullPathMtu) {
  const auto plan =
      plan_eal({"--vdev=net_memif0,role=server", "--vdev", "net_memif1,bsize=2048", "--vdev",
                "net_af_packet0,iface=eth0", "--vdev", "net_af_packet1,iface=eth1,framesz=2048", "--vdev", "net_tap0"},
               kHuge);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(contains(plan->args, "--vdev=net_memif0,role=server,bsize=4352"));
  EXPECT_TRUE(contains(plan->args, "net_memif1,bsize=2048"));
  EXPECT_TRUE(contains(plan->args, "net_af_packet0,iface=eth0,framesz=8192,blocksz=65536"));
  EXPECT_TRUE(contains(plan->args, "net_af_packet1,iface=eth1,framesz=2048"));
  EXPECT_TRUE(contains(plan->args, "net_tap0"));
  EXPECT_EQ(plan->vdevs,
            (std::vector<std::string>{"net_memif0", "net_memif1", "net_af_packet0", "net_af_packet1", "net_tap0"}));
}

TEST(EalArgs, RefusesMemifArgumentsThatDpdkWouldDropSilently) {
  const std::string text = error_of({"--vdev", "net_memif0,rol=server"});
  EXPECT_NE(text.find("'rol=server'"), std::string::npos);
  EXPECT_NE(text.find("role"), std::string::npos);
}

TEST(EalArgs, ReadsDeviceArguments) {
  EXPECT_EQ(device_argument("net_x0,iface=eth0,framesz=2048", "framesz"), "2048");
  EXPECT_EQ(device_argument("iface=eth0", "iface"), "eth0");
  EXPECT_EQ(device_argument("net_x0,ifaces=eth0", "iface"), "");
  EXPECT_EQ(device_argument("", "iface"), "");
}

}  // namespace
}  // namespace uroce::glue
