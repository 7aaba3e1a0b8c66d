// The command line and the file: whose port and whose lcores are used, and what is refused.
#include "nvmf/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace uroce::nvmf {
namespace {

using Words = std::vector<std::string>;

std::expected<Options, EarlyExit> parse(const Words& words) {
  std::vector<const char*> argv{"uroce_nvmf"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  for (const char* word : {"--nqn", "nqn.2024-01.org.example:disks", "--namespace", "memory:1M"}) argv.push_back(word);
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

/// EAL's arguments; empty where the daemon's devices are used.
Words eal(const Words& words) {
  const auto options = parse(words);
  EXPECT_TRUE(options) << options.error().text;
  return options ? options->eal : Words{"refused"};
}

void expect_refused(const Words& words, std::string_view part) {
  const auto options = parse(words);
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().code, 2);
  EXPECT_NE(options.error().text.find(part), std::string::npos) << options.error().text;
}

const Words kInterface{"--vdev=net_uroce_kif0,iface=eth0"};
Words on(const std::string& lcores) { return {"--lcores=" + lcores, "--in-memory", "--no-telemetry", kInterface[0]}; }

class File : public testing::Test {
 protected:
  File() { std::ofstream(path_) << "interface = \"eth0\"\nlcores = \"1-2\"\n"; }
  ~File() override { std::filesystem::remove(path_); }
  Words with_file(Words words) const {
    words.insert(words.end(), {"--config", path_});
    return words;
  }
  const std::string path_ = testing::TempDir() + "uroce-nvmf-options-" + std::to_string(getpid());
};

TEST(Lcores, AreTheCommandLines) {
  EXPECT_EQ(eal({"--interface", "eth0", "--lcores", "(0,1)@2"}), on("(0,1)@2"));
  EXPECT_EQ(eal({"--interface", "eth0"}).size(), 4u);  // one CPU: the first that the test may use
  EXPECT_EQ(eal({"-a", "0000:03:00.0", "--", "--lcores", "1-2"}), (Words{"-a", "0000:03:00.0", "--lcores=1-2"}));
  EXPECT_EQ(eal({"-l", "1,2", "--", "--interface", "eth0"}), (Words{"-l", "1,2", kInterface[0]}));
  EXPECT_EQ(eal({"--daemon"}), Words{});
}

TEST(Ports, AreSeveral) {
  const Words two = eal({"--interface", "eth0", "--interface", "eth1"});
  ASSERT_EQ(two.size(), 5u);
  EXPECT_EQ(two[3], kInterface[0]);
  EXPECT_EQ(two[4], "--vdev=net_uroce_kif1,iface=eth1");
}

TEST_F(File, ListensWhereTheCommandLineSays) {
  std::ofstream(path_) << "listen = [\"192.0.2.1\", \"198.51.100.1\"]\n";
  const auto listen = [&](const Words& words) { return parse(with_file(words))->listen.addresses; };
  EXPECT_EQ(listen({}), (Words{"192.0.2.1", "198.51.100.1"}));
  EXPECT_EQ(listen({"--listen", "192.0.2.2", "--listen", "192.0.2.3"}), (Words{"192.0.2.2", "192.0.2.3"}));
}

TEST(Lcores, AreRefusedWhereTheyMeanNothing) {
  expect_refused({"--interface", "eth0", "--lcores", "0;1"}, "--lcores: it may contain only digits and , - ( ) @");
  expect_refused({"-l", "1,2", "--", "--interface", "eth0", "--lcores", "3"}, "both name lcores");
  expect_refused({"--lcores=(0,1)@2", "--", "--lcores", "3"}, "both name lcores");
  expect_refused({"--lcores", "1-2"}, "lcores 1-2 have no port");
  expect_refused({"--daemon", "--lcores", "1-2"}, "leave --interface, --address, --lcores");
}

TEST_F(File, NamesPortAndLcores) {
  EXPECT_EQ(eal(with_file({})), on("1-2"));
  EXPECT_EQ(eal(with_file({"--lcores", "3,4"})), on("3,4"));
  EXPECT_EQ(eal(with_file({"--interface", "eth0"})), on("1-2"));
}

TEST_F(File, ComesAfterTheCommandLine) {
  EXPECT_EQ(eal(with_file({"-l", "3", "-a", "0000:03:00.0", "--"})), (Words{"-l", "3", "-a", "0000:03:00.0"}));
  EXPECT_EQ(eal(with_file({"-a", "0000:03:00.0", "--"})), (Words{"-a", "0000:03:00.0", "--lcores=1-2"}));
  EXPECT_EQ(eal(with_file({"--daemon"})), Words{});
  EXPECT_EQ(eal(with_file({"--socket", "/run/s"})), Words{});
}

TEST_F(File, NeedsAPortForItsLcores) {
  std::ofstream(path_) << "lcores = \"1-2\"\n";
  expect_refused(with_file({}), "interface in the file");
  EXPECT_EQ(eal(with_file({"--interface", "eth0"})), on("1-2"));
}

}  // namespace
}  // namespace uroce::nvmf
