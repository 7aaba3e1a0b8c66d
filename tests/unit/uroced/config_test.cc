#include "uroced/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "uroced/config_fields.h"

namespace uroce::daemon {
namespace {

/// The only error of a text, without "f:".
std::string error_of(std::string_view text) {
  const auto config = read_config(text, "f");
  if (config) return "accepted";
  return config.error().size() == 1 ? config.error()[0].substr(2) : fmt::format("{} errors", config.error().size());
}

void expect_error(std::string_view text, std::string_view begin, std::string_view part) {
  const std::string error = error_of(text);
  EXPECT_TRUE(error.starts_with(begin)) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

std::string sample() {
  std::ifstream in(UROCED_SAMPLE);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Config, NothingSaidGivesTheDefaults) {
  const auto config = read_config("", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->server.socket, "/run/uroce/uroced.sock");
  EXPECT_EQ(config->server.max_clients, 1024u);
  EXPECT_TRUE(changes_between(*config, Config{}).empty());
}

TEST(Config, TheSampleHasTheDefaults) {
  const auto config = read_config(sample(), "f");
  ASSERT_TRUE(config) << config.error()[0];
  for (const Change& one : changes_between(Config{}, *config)) ADD_FAILURE() << one.key << " is " << one.after;
}

TEST(Config, TheSampleHasEveryKeyAndItsExamplesAreGood) {
  // A comment has a space after its sign, an example that is commented out has none.
  const std::string text = std::regex_replace(sample(), std::regex("(^|\n)#([\\[a-z])"), "$1$2");
  const auto config = read_config(text, "f");
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(config->devices.size(), 1u);
  EXPECT_EQ(config->devices[0].port.mtu, 4200);
  const auto has_key = [&](std::string_view name) {
    EXPECT_NE(text.find(fmt::format("\n{} = ", name)), std::string::npos) << name;
  };
  for (const Section& section : sections()) {
    for (const auto& field : section.fields) has_key(field.name());
  }
  for (const auto& field : user_fields()) has_key(field.name());
  for (const auto& field : device_fields()) has_key(field.name());
}

TEST(Config, ReadsEveryKind) {
  const auto config = read_config(R"(
    daemon = { socket = "/tmp/s", mode = "0660", group = "root", log_level = "debug" }
    privilege = { user = "", seccomp = false }
    limits.max_queue_bytes = "2 MiB"
    limits.max_registered_bytes = 8192
    limits.file_memory = true
    limits.punch_penalty = 60
    limits.tenant_ranges = true
    [engines]
    idle = "busy"
    tx_mode = "copy"
    icrc = "table"
    retransmission = "selective"
    congestion_control = "swift"
    udp_source_ports = 8
    parking_frames = 0
    [dcqcn]
    gain = 0.5
    cnp_interval_us = 0
    [swift]
    beta = 1
    [eal]
    arguments = ["-l", "0,1"]
    [[device]]
    addresses = "192.0.2.1/24"
    answer_pings = false
    [[device]]
    addresses = ["198.51.100.1/24", "2001:db8::1/64"]
    mtu = 1500
    vlan = 7
    gateway = ["198.51.100.254", "2001:db8::2"]
    retransmission = "go-back-n"
    congestion_control = "dcqcn"
    udp_source_ports = 2
  )",
                                  "f");
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(config->server.socket, "/tmp/s");
  EXPECT_EQ(config->server.mode, 0660u);
  EXPECT_EQ(config->server.group, gid_t{0});
  EXPECT_EQ(config->log_level, LogLevel::debug);
  EXPECT_EQ(config->privilege.user, "");
  EXPECT_FALSE(config->privilege.seccomp);
  EXPECT_EQ(config->server.budgets.limits[service::Resource::queue_bytes], 2u << 20);
  EXPECT_EQ(config->server.budgets.limits[service::Resource::registered_bytes], 8192u);
  EXPECT_TRUE(config->server.budgets.file_memory);
  EXPECT_EQ(config->server.budgets.punch_penalty, 60u);
  EXPECT_TRUE(config->server.budgets.tenant_ranges);
  EXPECT_EQ(config->eal, (std::vector<std::string>{"-l", "0,1"}));
  const StackOptions stack = config->stack_options();
  EXPECT_EQ(stack.idle, IdlePolicy::busy);
  EXPECT_EQ(stack.tx_mode, StackOptions::TxMode::copy);
  EXPECT_EQ(stack.icrc, "table");
  EXPECT_EQ(stack.addresses, (std::vector<std::string>{"192.0.2.1/24", "198.51.100.1/24,2001:db8::1/64"}));
  ASSERT_EQ(stack.ports.size(), 2u);
  EXPECT_EQ(stack.ports[0].mtu, std::nullopt);
  EXPECT_EQ(stack.ports[1].mtu, 1500);
  EXPECT_EQ(stack.ports[1].vlan, 7);
  EXPECT_EQ(stack.ports[1].gateway, "198.51.100.254,2001:db8::2");
  EXPECT_EQ(stack.settings.retransmission, Retransmission::selective);
  EXPECT_EQ(stack.settings.congestion.algorithm, CongestionAlgorithm::swift);
  EXPECT_EQ(stack.settings.udp_source_ports, 8u);
  EXPECT_EQ(stack.settings.parking_frames, 0u);
  EXPECT_EQ(stack.settings.congestion.dcqcn.gain, 0.5);
  EXPECT_EQ(stack.settings.congestion.dcqcn.cnp_interval_us, 0u);
  EXPECT_EQ(stack.settings.congestion.swift.beta, 1.0);
  EXPECT_EQ(stack.ports[0].retransmission, std::nullopt);
  EXPECT_EQ(stack.ports[1].retransmission, Retransmission::go_back_n);
  EXPECT_EQ(stack.ports[1].congestion_control, CongestionAlgorithm::dcqcn);
  EXPECT_EQ(stack.ports[1].udp_source_ports, 2u);
  EXPECT_EQ(config->pings_answered(3), (std::vector<bool>{false, true, true})) << "the third port has no settings";
}

TEST(Config, AKeyStandsOnceInItsTable) {
  const auto expect_once = [](std::string_view table, const auto& fields) {
    std::set<std::string_view> names;
    for (const auto& field : fields) EXPECT_TRUE(names.insert(field.name()).second) << table << '.' << field.name();
  };
  for (const Section& section : sections()) expect_once(section.name, section.fields);
  expect_once("user", user_fields());
  expect_once("device", device_fields());
}

// The reference named --retransmission beside device.retransmission, too, which it removes.
TEST(Config, AnOptionSetsOneKey) {
  std::set<std::string_view> options;
  const auto expect_one_key = [&](const auto& fields) {
    for (const auto& field : fields) {
      const std::string_view option = field.setting.option;
      EXPECT_TRUE(option.empty() || options.insert(option).second) << field.name() << ": " << option;
    }
  };
  for (const Section& section : sections()) expect_one_key(section.fields);
  expect_one_key(user_fields());
  expect_one_key(device_fields());
}

TEST(Config, PingsOfAllDevicesOrOfNone) {
  EXPECT_EQ(Config{}.pings_answered(2), (std::vector<bool>{true, true}));
  const auto off = read_config("[daemon]\nanswer_pings = false\n[[device]]\nanswer_pings = true\n", "f");
  ASSERT_TRUE(off);
  EXPECT_EQ(off->pings_answered(2), (std::vector<bool>{false, false}));
}

TEST(Config, OneDeviceMayBeATable) {
  const auto config = read_config("[device]\nmtu = 1500\n", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->devices.size(), 1u);
}

TEST(Config, SaysWhereItIsNotToml) {
  expect_error("[daemon]\nsocket = \n", "2:", "not valid TOML");
  expect_error("[daemon]\nmode = 0666\n", "2:", "not valid TOML");
  expect_error("[daemon]\nmode = \"0600\"\nmode = \"0660\"\n", "3:", "not valid TOML");
}

TEST(Config, RefusesUnknownKeys) {
  expect_error("[demon]\n", "1:2: unknown table [demon]",
               "[daemon], [privilege], [metrics], [limits], [engines], [dcqcn], [swift], [eal], [[user]], [[device]]");
  expect_error("[limits]\n  max_qps = 1\n", "2:3: unknown key limits.max_qps", "max_qp, max_cq");
  expect_error("[[device]]\n[[device]]\nadress = 1\n", "3:1: unknown key device[1].adress", "addresses, mtu");
}

TEST(Config, TakesAnAddressForMetrics) {
  for (const char* good : {"127.0.0.1:9464", "0.0.0.0:1", "[::1]:65535", ""}) {
    const auto config = read_config(fmt::format("[metrics]\nlisten = \"{}\"\n", good), "f");
    ASSERT_TRUE(config) << good;
    EXPECT_EQ(config->metrics_listen, good);
  }
  for (const char* bad : {"9464", "localhost:9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                          "127.0.0.1:9464x", "::1:9464", "[::1]9464", "[127.0.0.1]:9464", "10.0.0.256:1"}) {
    expect_error(fmt::format("[metrics]\nlisten = \"{}\"\n", bad),
                 "2:10: metrics.listen = ", "it must be an address with a port, like \"127.0.0.1:9464\"");
  }
  expect_error("[metrics]\nlisten = 9464\n", "2:10: metrics.listen = 9464", "it is an integer");
}

TEST(Config, RefusesTheWrongKind) {
  expect_error("[limits]\nmax_qp = \"many\"\n", "2:10: limits.max_qp = 'many'",
               "it is a string; it must be an integer from 1");
  expect_error("[limits]\nmax_qp = 1.5\n", "2:10: limits.max_qp = 1.5", "a number with a fraction");
  expect_error("[limits]\nfile_memory = 1\n", "2:15: limits.file_memory = 1", "true or false");
  expect_error("[limits]\nmax_queue_bytes = true\n", "2:19: limits.max_queue_bytes = true",
               "it is a boolean; it must be a number of bytes");
  expect_error("[daemon]\nsocket = 5\n", "2:10: daemon.socket = 5", "a path");
  expect_error("[daemon]\nmode = 438\n", "2:8: daemon.mode = 438", "octal digits");
  expect_error("[privilege]\nseccomp = \"no\"\n", "2:11: privilege.seccomp = 'no'", "must be true or false");
  expect_error("[privilege]\nuser = 33\n", "2:8: privilege.user = 33", "the name of a user");
  expect_error("[privilege]\nuser = \"a:b\"\n", "2:8: privilege.user = 'a:b'", "of at most 32 characters");
  expect_error("[engines]\nidle = true\n", "2:8: engines.idle = true", "\"busy\", \"yield\", \"sleep\"");
  expect_error("[eal]\narguments = [\"-l\", 3]\n", "2:20: eal.arguments = 3", "a string in");
  expect_error("daemon = 3\n", "1:10: daemon = 3", "it must be a table");
  expect_error("device = 3\n", "1:10: device = 3", "a table [[device]]");
  expect_error("device = [3]\n", "1:11: device[0] = 3", "it must be a table");
}

TEST(Config, RefusesWhatIsOutOfRange) {
  expect_error("[daemon]\nmax_clients = 0\n", "2:15: daemon.max_clients = 0", "from 1 to 65536");
  expect_error("[daemon]\nmax_clients = 65537\n", "2:15: daemon.max_clients = 65537", "from 1 to 65536");
  expect_error("[limits]\nmax_qp = -1\n", "2:10: limits.max_qp = -1", "from 1 to 1048576");
  expect_error("[limits]\nmax_queue_bytes = 1\n", "2:19: limits.max_queue_bytes = 1", "from 4 KiB to 128 TiB");
  expect_error("[limits]\nmax_queue_bytes = -1\n", "2:19: limits.max_queue_bytes = -1", "from 4 KiB to 128 TiB");
  expect_error("[limits]\nmax_queue_bytes = \"99999999 TiB\"\n", "2:19:", "KiB, MiB, GiB, TiB");
  expect_error("[limits]\nmax_queue_bytes = \"4 GB\"\n", "2:19:", "KiB, MiB, GiB, TiB");
  expect_error("[daemon]\nmode = \"1777\"\n", "2:8: daemon.mode = '1777'", "\"0777\"");
  expect_error("[daemon]\nmode = \"rw\"\n", "2:8: daemon.mode = 'rw'", "octal");
  expect_error("[daemon]\nsocket = \"run/s\"\n", "2:10: daemon.socket", "absolute path");
  expect_error("[daemon]\nsocket = \"/" + std::string(107, 'x') + "\"\n", "2:10: daemon.socket", "at most 107 bytes");
  expect_error("[daemon]\ngroup = \"no such group\"\n", "2:9: daemon.group = 'no such group'", "no group of that name");
  expect_error("[daemon]\nlog_level = \"loud\"\n", "2:13: daemon.log_level = 'loud'", "\"warning\"");
  expect_error("[engines]\nrx_descriptors = 63\n", "2:18: engines.rx_descriptors = 63", "from 64 to 8192");
  expect_error("[engines]\nlcores = \"0;1\"\n", "2:10: engines.lcores = '0;1'", "--lcores");
  expect_error("[device]\nmtu = 339\n", "2:7: device.mtu = 339", "from 340 to 9216");
  expect_error("[engines]\nretransmission = \"all\"\n", "2:18: engines.retransmission = 'all'",
               "\"auto\", \"go-back-n\", \"selective\"");
  expect_error("[engines]\nicrc = \"z80\"\n", "2:8: engines.icrc = 'z80'", "\"table\"");
  expect_error("[device]\ncongestion_control = \"cubic\"\n", "2:22: device.congestion_control = 'cubic'",
               "\"none\", \"dcqcn\", \"swift\"");
  expect_error("[engines]\nudp_source_ports = 65\n", "2:20: engines.udp_source_ports = 65", "from 1 to 64");
  expect_error("[dcqcn]\ngain = 0.0\n", "2:8: dcqcn.gain = 0.0", "a number from 0.0001 to 1");
  expect_error("[dcqcn]\nmin_rate_mbps = 0\n", "2:17: dcqcn.min_rate_mbps = 0", "from 1 to 1000000");
  expect_error("[swift]\nbase_target_us = \"fast\"\n", "2:18: swift.base_target_us = 'fast'",
               "it is a string; it must be a number");
  expect_error("[swift]\nbeta = nan\n", "2:8: swift.beta = nan", "a number from 0.01 to 1");
  expect_error("[device]\nvlan = 4095\n", "2:8: device.vlan = 4095", "from 1 to 4094");
}

TEST(Config, RefusesAddressesWhereTheyStand) {
  expect_error("[device]\naddresses = [\"192.0.2.1/24\",\n \"192.0.2.2\"]\n", "3:2: device.addresses = '192.0.2.2'",
               "prefix length");
  expect_error("[device]\naddresses = [\"192.0.2.1/24\", \"192.0.2.1/24\"]\n", "2:30:", "192.0.2.1");
  expect_error("[device]\naddresses = []\n", "2:13:", "at least one");
  expect_error("[device]\naddresses = [\"192.0.2.1/24\", \"kernel\"]\n", "2:30:", "stands alone");
  for (const std::string_view text : {"\"kernel\"", "[\"kernel\"]"}) {
    const auto config = read_config(fmt::format("[[device]]\naddresses = {}\n", text), "f");
    ASSERT_TRUE(config) << config.error()[0];
    EXPECT_EQ(config->stack_options().addresses, std::vector<std::string>{"kernel"});
  }
  expect_error("[device]\ngateway = \"nowhere\"\n", "2:11: device.gateway = 'nowhere'", "nowhere");
}

TEST(Config, RefusesEalArgumentsThatEalWouldRefuse) {
  expect_error("[eal]\narguments = [\"--vdevs\", \"x\"]\n", "2:13: eal.arguments", "'--vdevs'");
  expect_error("[engines]\nlcores = \"0,1\"\n[eal]\narguments = [\"-l0,1\"]\n", " ", "both name lcores");
}

TEST(Config, BoundsTheNumberOfDevices) {
  std::string text;
  for (int i = 0; i < 33; ++i) text += "[[device]]\n";
  expect_error(text, "33:", "at most 32 ports");
}

TEST(Config, FindsAllErrorsInTheOrderOfTheFile) {
  const auto config = read_config("[limits]\nmax_qp = 0\n[daemon]\nmode = 1\nx = 1\n", "f");
  ASSERT_FALSE(config);
  ASSERT_EQ(config.error().size(), 3u);
  EXPECT_TRUE(config.error()[0].starts_with("f:2:"));
  EXPECT_TRUE(config.error()[1].starts_with("f:4:"));
  EXPECT_TRUE(config.error()[2].starts_with("f:5:"));
}

TEST(Config, OverridesGoBeforeTheFile) {
  const auto config = read_config("[daemon]\nsocket = \"/a\"\n[limits]\nmax_qp = 5\n", "f",
                                  {{"--socket", "daemon.socket", "/b\"c\\"}, {"--set", "limits.max_qp", "6"}});
  ASSERT_TRUE(config) << config.error()[0];
  EXPECT_EQ(config->server.socket, "/b\"c\\");
  EXPECT_EQ(config->server.budgets.limits[service::Resource::qp], 6u);
  const auto bad = read_config("", "f", {{"--set limits.max_qp=x", "limits.max_qp", "x"}});
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error()[0].starts_with("--set limits.max_qp=x: limits.max_qp = 'x': ")) << bad.error()[0];
}

TEST(Config, SaysThatAFileCannotBeRead) {
  const auto none = read_config_file("/nonexistent/uroced.toml");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error()[0], "cannot read /nonexistent/uroced.toml: No such file or directory");
  EXPECT_NE(read_config_file("/").error()[0].find("cannot read /"), std::string::npos);
  const auto path = std::filesystem::temp_directory_path() / fmt::format("uroced-config-{}", getpid());
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  EXPECT_NE(read_config_file(path).error()[0].find("larger than 1 MiB"), std::string::npos);
  std::ofstream(path, std::ios::trunc) << "";
  EXPECT_TRUE(read_config_file(path));
  std::filesystem::remove(path);
}

TEST(Config, HasUsersWithLimitsOfTheirOwn) {
  const auto config = read_config(
      "[[user]]\nname = \"1234\"\nweight = 3\nmax_qp = 7\nfile_memory = true\nraw_packets = true\nmax_queue_bytes = "
      "\"1 "
      "MiB\"\n[[user]]\nname = "
      "\"root\"\n",
      "f");
  ASSERT_TRUE(config) << config.error()[0];
  const auto& users = config->server.budgets.users;
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].uid, 1234u);
  EXPECT_EQ(users[0].weight, 3u);
  EXPECT_EQ(users[1].weight, 1u);
  EXPECT_EQ(users[0].limits[service::Resource::qp], 7u);
  EXPECT_EQ(users[0].limits[service::Resource::queue_bytes], 1u << 20);
  EXPECT_EQ(users[0].limits[service::Resource::cq], 0u) << "that of [limits]";
  EXPECT_TRUE(users[0].file_memory);
  EXPECT_TRUE(users[0].raw_packets);
  EXPECT_FALSE(users[1].raw_packets);
  EXPECT_EQ(users[1].uid, 0u);
  expect_error("[[user]]\nmax_qp = 7\n", "1:1: user[0] has no name", "a uid");
  expect_error("[[user]]\nname = \"no such user\"\n", "2:8: user[0].name", "no user of that name");
  expect_error("[[user]]\nname = \"5\"\n[[user]]\nname = \"5\"\n", "1:1: user[1] is user 5 again", "one table");
  const auto changes = changes_between(*read_config("", "f"), *config);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].key, "the number of users");
  EXPECT_TRUE(changes[0].live);
}

TEST(Config, NestsNoDeeperThanTheParserBears) {
  const std::string text = "a = " + std::string(100000, '[');
  expect_error(text, "1:", "not valid TOML");
}

TEST(Changes, TellWhatAppliesAtRunTime) {
  const auto before = read_config("[[device]]\nmtu = 1500\n", "f");
  const auto after = read_config(
      "daemon.max_clients = 7\nlimits.max_qp = 9\nengines.idle = \"busy\"\n"
      "[[device]]\nmtu = 4200\n[[device]]\n",
      "f");
  ASSERT_TRUE(before && after);
  std::string text;
  const auto changes = changes_between(*before, *after);
  for (const Change& one : changes) text += fmt::format("{} {} {} {}\n", one.key, one.before, one.after, one.live);
  EXPECT_EQ(text,
            "daemon.max_clients 1024 7 true\nlimits.max_qp automatic 9 true\nengines.idle \"sleep\" \"busy\" false\n"
            "device[0].mtu 1500 4200 false\nthe number of devices 1 2 false\n");
  Config running = *before;
  apply_live(running, *after);
  for (const Change& one : changes_between(running, *after)) EXPECT_FALSE(one.live) << one.key;
}

}  // namespace
}  // namespace uroce::daemon
