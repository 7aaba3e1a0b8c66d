// The configuration file.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "must.h"
#include "nvmf/config.h"

namespace uroce::nvmf {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ~ConfigTest() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "uroce-nvmf-config-" + std::to_string(getpid());
};

TEST_F(ConfigTest, NamesItsFaults) {
  const auto fault = [&](const std::string& text) {
    std::ofstream(path_) << text;
    const auto read = read_config(path_);
    return read ? std::string("none") : read.error().text.substr(path_.size());
  };
  EXPECT_EQ(fault("[[subsystem]]\nnqn = \"nqn.2024-01.org.example:a\"\nnamespaces = [\"memory:1M\"]\n"), "none");
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"a\"\n").find("does not begin with nqn."), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nname = \"a\"\n").find(":2: unknown key name"), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"nqn.a\"\nhosts = []\n").find("hosts is empty"), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"nqn.a\"\nnamespaces = [\"memory:x\"]\n").find("memory:1G"),
            std::string::npos);
  EXPECT_NE(fault("subsystem = 1\n").find("[[subsystem]]"), std::string::npos);
  EXPECT_NE(fault("interface = 1\n").find(":1: interface names nothing"), std::string::npos);
  EXPECT_NE(fault("interface = []\n").find(":1: interface names nothing"), std::string::npos);
  EXPECT_NE(fault("interface = [1, 2]\n").find(":1: an entry of interface is no text"), std::string::npos);
  EXPECT_NE(fault("listen = \"192.0.2.1\"\n").find(":1: listen is no list"), std::string::npos);
  EXPECT_NE(fault("listen = []\n").find(":1: listen is empty"), std::string::npos);
  EXPECT_NE(fault("interface = \"d0\"\nlcores = 1\n").find(":2: lcores is no text"), std::string::npos);
  EXPECT_NE(fault("lcores = \"0;1\"\n").find(":1: lcores = '0;1': it may contain only"), std::string::npos);
  EXPECT_NE(fault("cores = \"1\"\n").find(":1: unknown key cores; the file has interface, lcores, listen"),
            std::string::npos);
}

TEST_F(ConfigTest, NamesThePort) {
  std::ofstream(path_) << "interface = \"eth0\"\n";
  const Config named = must(read_config(path_));
  EXPECT_EQ(named.interfaces, std::vector<std::string>{"eth0"});
  EXPECT_EQ(named.lcores, "");
  EXPECT_TRUE(named.listen.empty());
  EXPECT_TRUE(named.subsystems.empty());
  std::ofstream(path_) << "";
  EXPECT_TRUE(must(read_config(path_)).interfaces.empty());
}

TEST_F(ConfigTest, NamesSeveralPorts) {
  std::ofstream(path_) << "interface = [\"eth0\", \"eth1\"]\nlisten = [\"192.0.2.1\", \"2001:db8::1\"]\n";
  const Config config = must(read_config(path_));
  EXPECT_EQ(config.interfaces, (std::vector<std::string>{"eth0", "eth1"}));
  EXPECT_EQ(config.listen, (std::vector<std::string>{"192.0.2.1", "2001:db8::1"}));
}

TEST_F(ConfigTest, TheSampleHoldsWithItsLinesCommentedIn) {
  std::ifstream sample(UROCE_NVMF_SAMPLE);
  std::string used;
  for (std::string line; std::getline(sample, line);) {
    if (line.starts_with('#') && !line.starts_with("# ")) used += line.substr(1) + "\n";
  }
  EXPECT_TRUE(must(read_config(UROCE_NVMF_SAMPLE)).subsystems.empty());
  std::ofstream(path_) << used;
  const Config config = must(read_config(path_));
  EXPECT_EQ(config.interfaces, std::vector<std::string>{"eth0"});
  EXPECT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.lcores, "1-2");
  ASSERT_EQ(config.subsystems.size(), 1u);
  EXPECT_EQ(config.subsystems[0].namespaces.size(), 1u);
  EXPECT_EQ(config.subsystems[0].hosts.size(), 1u);
}

}  // namespace
}  // namespace uroce::nvmf
