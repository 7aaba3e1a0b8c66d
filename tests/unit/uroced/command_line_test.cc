#include "uroced/command_line.h"

#include <gtest/gtest.h>

#include "uroced/eal_choice.h"

namespace uroce::daemon {
namespace {

std::expected<CommandLine, EarlyExit> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "uroced");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

void expect_refused(std::vector<const char*> words, std::string_view part) {
  const auto command = parse(std::move(words));
  ASSERT_FALSE(command);
  EXPECT_EQ(command.error().code, 2);
  EXPECT_NE(command.error().text.find(part), std::string::npos) << command.error().text;
}

TEST(CommandLine, SplitsAtTheDashes) {
  const auto command = parse({"-l", "0,1", "--", "--config", "f.toml", "--address", "192.0.2.1/24"});
  ASSERT_TRUE(command);
  EXPECT_EQ(command->eal, (std::vector<std::string>{"-l", "0,1"}));
  EXPECT_EQ(command->config_file, "f.toml");
  EXPECT_EQ(command->addresses, (std::vector<std::string>{"192.0.2.1/24"}));
  const auto own = parse({"--demo"});
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->demo);
  EXPECT_TRUE(own->eal.empty());
}

TEST(CommandLine, NeedsSomethingToServe) {
  expect_refused({}, "--demo");
  expect_refused({"--config", "a", "--demo"}, "exclude each other");
  expect_refused({"-l", "0", "--demo"}, "before `--`");
  expect_refused({"--nonsense"}, "--nonsense");
  expect_refused({"nonsense"}, "nonsense");
  expect_refused({"--demo", "--port-mtu", "10"}, "10");
  EXPECT_TRUE(parse({"--vdev", "net_null0", "--"}));
}

TEST(CommandLine, ReplacesAlwaysOrIfOneRuns) {
  const auto always = parse({"--replace", "--interface", "d0"});
  ASSERT_TRUE(always);
  EXPECT_TRUE(always->replace && !always->replace_if_running);
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"--interface", "d0", "--replace", "if-running"},
        {"--interface", "d0", "--replace=if-running"}}) {
    const auto possibly = parse(words);
    ASSERT_TRUE(possibly);
    EXPECT_TRUE(possibly->replace && possibly->replace_if_running);
  }
  expect_refused({"--interface", "d0", "--replace=never"}, "--replace 'never': it takes nothing, or \"if-running\"");
  expect_refused({"--demo", "--replace"}, "neither --check nor --demo");
}

TEST(CommandLine, SupervisesWhatIsToStay) {
  EXPECT_FALSE(parse({"--interface", "d0", "--replace"})->supervise);
  EXPECT_TRUE(parse({"--interface", "d0", "--replace", "if-running"})->supervise);
  const auto alone = parse({"--supervise", "--interface", "d0"});
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->supervise && !alone->replace);
  expect_refused({"--demo", "--supervise"}, "--supervise starts a daemon again");
  expect_refused({"--check", "f.toml", "--supervise"}, "neither --check nor --demo");
}

TEST(CommandLine, PrintsAndLeaves) {
  for (const char* word : {"--version", "--help", "-V", "-h"}) {
    const auto command = parse({word});
    ASSERT_FALSE(command);
    EXPECT_EQ(command.error().code, 0);
    EXPECT_NE(command.error().text.find("uroced"), std::string::npos);
  }
}

TEST(CommandLine, OverridesReachTheConfiguration) {
  const auto command = parse({"--demo", "--socket", "/x/y", "--set", "limits.max_qp=64", "--set", "daemon.mode=0660",
                              "--retransmission", "go-back-n", "--congestion-control", "dcqcn", "--idle", "yield",
                              "--port-mtu", "1500", "--address", "192.0.2.1/24"});
  ASSERT_TRUE(command);
  const auto config = load_config(*command);
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(config->server.socket, "/x/y");
  EXPECT_EQ(config->server.budgets.limits[service::Resource::qp], 64u);
  const StackOptions stack = config->stack_options();
  EXPECT_TRUE(stack.back_to_back);
  EXPECT_EQ(stack.idle, IdlePolicy::yield);
  EXPECT_EQ(stack.settings.retransmission, Retransmission::go_back_n);
  EXPECT_EQ(stack.settings.congestion.algorithm, CongestionAlgorithm::dcqcn);
  EXPECT_EQ(stack.mtu, 1500);
  EXPECT_EQ(stack.addresses.size(), 1u);
}

TEST(CommandLine, ModeWithoutQuotesIsOctal) {
  const auto command = parse({"--demo", "--set", "daemon.mode=0660"});
  ASSERT_TRUE(command);
  const auto config = load_config(*command);
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(config->server.mode, 0660u);
}

TEST(CommandLine, RefusesWhatIsNoSetting) {
  expect_refused({"--demo", "--set", "a=b"}, "TABLE.KEY=VALUE");
  expect_refused({"--demo", "--set", "limits.max_qp"}, "TABLE.KEY=VALUE");
  expect_refused({"--demo", "--set", "limits.max qp=1"}, "cannot be a key");
  expect_refused({"--demo", "--set", "device.mtu=1"}, "--port-mtu");
}

TEST(EalChoice, TheCommandLineReplacesTheFile) {
  Config config;
  config.eal = {"--no-pci"};
  config.lcores = "0,1";
  EXPECT_EQ(choose_eal({}, config, {}).args, (std::vector<std::string>{"--no-pci", "--lcores=0,1"}));
  EXPECT_EQ(choose_eal({.eal = {"-m", "64"}}, config, {}).args, (std::vector<std::string>{"-m", "64", "--lcores=0,1"}));
  EXPECT_EQ(choose_eal({.eal = {"-l0"}}, config, {}).args, (std::vector<std::string>{"-l0"}));
}

TEST(EalChoice, InterfacesNeedNothingElse) {
  const uint64_t plenty = uint64_t{1} << 30;
  const auto command = parse({"--interface", "eth0", "--interface", "eth1", "--address", "192.0.2.1/24"});
  ASSERT_TRUE(command);
  const auto config = load_config(*command);
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(choose_eal(*command, *config, {{0, 1}, plenty}).args,
            (std::vector<std::string>{"--vdev=net_uroce_kif0,iface=eth0", "--vdev=net_uroce_kif1,iface=eth1",
                                      "--lcores=0@0,1@1", "--in-memory", "--no-pci", "--no-telemetry"}));
  EXPECT_EQ(choose_eal({.eal = {"-l", "0"}}, *config, {{0, 1}, plenty}).args.size(), 4u);
  expect_refused({"--demo", "--interface", "eth0"}, "leave --interface out");
}

TEST(EalChoice, PortsOfEalComeFirst) {
  Config config;
  config.devices = {{.interface = "eth0", .addresses = "192.0.2.1/24"}, {.addresses = "192.0.2.2/24"}};
  EXPECT_EQ(config.stack_options().addresses, (std::vector<std::string>{"192.0.2.2/24", "192.0.2.1/24"}));
}

TEST(EalChoice, TheDemoRunsAnywhere) {
  const auto args = [](Machine machine, std::vector<std::string> given = {}) {
    return choose_eal({.eal = std::move(given), .demo = true}, {}, machine).args;
  };
  const uint64_t plenty = uint64_t{1} << 30;
  EXPECT_EQ(args({{2, 5}, plenty}),
            (std::vector<std::string>{"--lcores=0@2,1@5", "--in-memory", "--no-pci", "--no-telemetry"}));
  EXPECT_EQ(args({{3}, plenty})[0], "--lcores=0@3,1@3");
  EXPECT_EQ(args({{0, 1}, plenty}, {"-l", "0", "--file-prefix=x", "-a", "0000:00:01.0", "--telemetry"}).size(), 6u);
  const std::vector<std::string> abbreviated{"-l0", "--in-mem", "--no-pc", "--no-t"};
  EXPECT_EQ(args({{0, 1}, plenty}, abbreviated), abbreviated) << "as EAL reads them";
  const auto poor = choose_eal({.demo = true}, {}, {{0, 1}, 0});
  EXPECT_EQ(poor.notes.size(), 1u);
  EXPECT_EQ(poor.args[4], "--no-huge");
  EXPECT_TRUE(choose_eal({.eal = {"-m", "64"}, .demo = true}, {}, {{0, 1}, 0}).notes.empty());
}

}  // namespace
}  // namespace uroce::daemon
