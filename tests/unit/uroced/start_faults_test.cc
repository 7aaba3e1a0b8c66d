#include "uroced/start_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace uroce::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr glue::HostFacts kHost{};

/// A machine with two interfaces and no card for programs.
Ports two_interfaces() {
  return {.interfaces = {{"eth0", {.addresses = "192.0.2.1"}},
                         {"eth1", {.default_route = true}},
                         {"lo", {.addresses = "127.0.0.1"}}}};
}

/// Of a start with these words and this file.
std::vector<std::string> faults(std::vector<const char*> words, std::string_view file = "",
                                const Ports& ports = two_interfaces()) {
  words.insert(words.begin(), "uroced");
  const auto command = parse_command_line(static_cast<int>(words.size()), words.data());
  if (!command) return {command.error().text};
  CommandLine without_file = *command;
  without_file.config_file = without_file.check_file = "";
  auto config = load_config(without_file);
  if (!config) return config.error();
  if (!file.empty()) {
    const auto read = read_config(file, "f");
    if (!read) return read.error();
    config->eal = read->eal;
    config->devices = read->devices;
  }
  return faults_of_settings(*command, *config, choose_eal(*command, *config, {{0, 1}, 0}).args, kHost,
                            [&] { return ports; });
}

TEST(StartFaults, TheFileNamesNoPort) {
  const auto said =
      ElementsAre(AllOf(HasSubstr("/etc/uroced.toml names no port to serve, and no card is bound"),
                        HasSubstr("--interface eth1, or in the file a table [[device]] with interface = \"eth1\"")));
  EXPECT_THAT(faults({"--config", "/etc/uroced.toml"}), said);
  EXPECT_THAT(faults({"--check", "/etc/uroced.toml"}), said) << "the check finds what the start refuses";
  EXPECT_THAT(faults({"--config", "f"}, "[[device]]\ninterface = \"eth0\"\n"), ElementsAre());
  EXPECT_THAT(faults({"--config", "f"}, "[eal]\narguments = [\"--vdev=net_null0\"]\n"), ElementsAre());
}

TEST(StartFaults, EalMayFindACardByItself) {
  Ports ports = two_interfaces();
  ports.eal_may_find = true;
  EXPECT_THAT(faults({"--config", "f"}, "", ports), ElementsAre());
  EXPECT_THAT(faults({"-l", "0", "--no-pci", "--"}, "", ports),
              ElementsAre(HasSubstr("\"-l 0 --no-pci\" name no port to serve. ")));
  EXPECT_THAT(faults({"-l", "0", "-a", "0000:00:08.0", "--"}), ElementsAre()) << "the report on the cards judges it";
}

TEST(StartFaults, TheDemoNeedsNoPort) { EXPECT_THAT(faults({"--demo"}), ElementsAre()); }

TEST(StartFaults, WhatTheStackAndEalRefuse) {
  EXPECT_THAT(faults({"--interface", "eth0", "--vlan", "7", "--address", "kernel"}),
              ElementsAre(HasSubstr("vlan is 7")));
  EXPECT_THAT(faults({"--interface", "eth0", "--address", "nonsense"}), ElementsAre(HasSubstr("addresses of port 0")));
  EXPECT_THAT(faults({"--vdev=net_null0", "--frobnicate", "--"}), ElementsAre(HasSubstr("'--frobnicate'")));
  EXPECT_THAT(faults({"--vdev=net_null0", "--no-pci", "--"}, "[[device]]\n[[device]]\nmtu = 1500\n"),
              ElementsAre(HasSubstr("settings for 2 ports, but EAL finds 1 at most")));
  EXPECT_THAT(faults({"--vdev=net_null0", "--"}, "[[device]]\n[[device]]\nmtu = 1500\n"), ElementsAre())
      << "there may be cards";
}

TEST(StartFaults, AnInterfaceThatIsNotThere) {
  const std::vector<std::string> args{"--vdev=net_uroce_kif0,iface=eth7", "--vdev=net_uroce_kif1,iface=eth0"};
  EXPECT_THAT(faults_of_machine(args, kHost, two_interfaces()), ElementsAre(HasSubstr("no network interface eth7")));
}

}  // namespace
}  // namespace uroce::daemon
