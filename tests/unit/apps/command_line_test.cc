// The command line: names, defaults as perftest's, and what is refused.
#include "perf/command_line.h"

#include <gtest/gtest.h>

#include <vector>

#include "perf/status.h"

namespace uroce::perf {
namespace {

std::expected<Options, EarlyExit> parse(std::vector<const char*> words) {
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

Options accepted(std::vector<const char*> words) {
  auto options = parse(std::move(words));
  EXPECT_TRUE(options.has_value()) << (options ? "" : options.error().text);
  return options ? *options : Options{};
}

std::string refused(std::vector<const char*> words) {
  const auto options = parse(std::move(words));
  EXPECT_FALSE(options.has_value());
  if (options) return {};
  EXPECT_EQ(options.error().code, 2);
  EXPECT_EQ(options.error().text.find('\n'), std::string::npos) << options.error().text;
  return options.error().text;
}

TEST(TestNames, AreFoundWithAndWithoutPrefixAndDirectory) {
  EXPECT_EQ(test_by_name("write_bw"), (perf::Test{Verb::write, Kind::bw}));
  EXPECT_EQ(test_by_name("/usr/bin/uroce_atomic_lat"), (perf::Test{Verb::atomic, Kind::lat}));
  EXPECT_EQ(test_by_name("uroce_flush_lat"), (perf::Test{Verb::flush, Kind::lat}));
  EXPECT_EQ(test_by_name("raw_bw"), (perf::Test{Verb::raw, Kind::bw}));
  EXPECT_EQ(test_by_name("raw_lat"), (perf::Test{Verb::raw, Kind::lat}));
  EXPECT_FALSE(test_by_name("uroce_perf"));
  EXPECT_FALSE(test_by_name(""));
}

TEST(CommandLine, ProgramNameChoosesTheTest) {
  const Options o = accepted({"/usr/bin/uroce_read_lat", "-l", "0", "--", "server"});
  EXPECT_EQ(o.test, (perf::Test{Verb::read, Kind::lat}));
  EXPECT_EQ(o.program, "uroce_read_lat");
  EXPECT_EQ(o.eal, (std::vector<std::string>{"-l", "0"}));
  EXPECT_EQ(o.host, "server");
}

TEST(CommandLine, FirstWordChoosesTheTestOnEitherSideOfTheDashes) {
  EXPECT_EQ(accepted({"uroce_perf", "send_bw", "-l", "0", "--"}).test, (perf::Test{Verb::send, Kind::bw}));
  const Options o = accepted({"uroce_perf", "-l", "0", "--", "send_bw", "-q", "4", "host"});
  EXPECT_EQ(o.test, (perf::Test{Verb::send, Kind::bw}));
  EXPECT_EQ(o.eal, (std::vector<std::string>{"-l", "0"}));
  EXPECT_EQ(o.host, "host");
  EXPECT_EQ(o.qps, 4u);
}

TEST(CommandLine, TheDaemonTakesNoPortsOfOurs) {
  const Options o = accepted({"uroce_write_bw", "--", "--daemon", "--socket", "/run/s", "-d", "uroce1"});
  EXPECT_TRUE(o.daemon);
  EXPECT_EQ(o.socket, "/run/s");
  EXPECT_NE(refused({"uroce_write_bw", "-l", "0", "--", "--daemon"}).find("-l"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "--daemon", "--vlan", "5"}).find("--vlan"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "--socket", "/run/s"}).find("--daemon"), std::string::npos);
  EXPECT_NE(refused({"uroce_perf", "raw_bw", "--", "--daemon"}).find("raw_bw"), std::string::npos);
  EXPECT_NE(refused({"uroce_perf", "raw_lat", "--", "--daemon"}).find("raw_lat"), std::string::npos);
}

TEST(CommandLine, EalArgumentsThatLookLikeOursStayTheirs) {
  const Options o = accepted({"uroce_write_bw", "-n", "4", "-m", "256", "--", "-n", "100", "-m", "1024"});
  EXPECT_EQ(o.eal, (std::vector<std::string>{"-n", "4", "-m", "256"}));
  EXPECT_EQ(o.iters, 100u);
  EXPECT_EQ(o.mtu, 1024u);
}

TEST(Defaults, AreThoseOfPerftest) {
  const Options bw = accepted({"uroce_write_bw"});
  EXPECT_EQ(bw.size, 65536u);
  EXPECT_EQ(bw.iters, 5000u);
  EXPECT_EQ(bw.tx_depth, 128u);
  EXPECT_EQ(bw.cq_mod, 1u);  // large messages are not moderated
  EXPECT_EQ(bw.port, 18515);
  EXPECT_EQ(bw.inline_size, 0u);
  EXPECT_FALSE(bw.is_client());
  EXPECT_EQ(accepted({"uroce_read_bw"}).iters, 1000u);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "8"}).cq_mod, 100u);
  EXPECT_EQ(accepted({"uroce_send_bw"}).rx_depth, 512u);

  const Options lat = accepted({"uroce_write_lat"});
  EXPECT_EQ(lat.size, 2u);
  EXPECT_EQ(lat.iters, 1000u);
  EXPECT_EQ(lat.tx_depth, 1u);
  EXPECT_EQ(lat.cq_mod, 1u);
  EXPECT_EQ(lat.inline_size, 220u);
  EXPECT_EQ(accepted({"uroce_send_lat"}).inline_size, 236u);
  EXPECT_EQ(accepted({"uroce_read_lat"}).inline_size, 0u);
  EXPECT_EQ(accepted({"uroce_atomic_bw"}).size, 8u);
}

// perftest's 14 is half a second: less than a peer waits for its turn on a core with ten busy programs.
TEST(Defaults, OutlastAPeerWhoseCoreIsTaken) {
  EXPECT_GT(retry_budget_s(accepted({"uroce_write_bw"}).qp_timeout), 8);
  EXPECT_GT(retry_budget_s(accepted({"uroce_write_bw", "--", "--retransmission", "auto"}).qp_timeout), 8);
  EXPECT_GT(accepted({"uroce_write_bw"}).peer_timeout_s, 8);
  EXPECT_GT(accepted({"uroce_write_bw", "--", "host"}).connect_timeout_s, 8);
  // Go-Back-N waits for its timeout where the last packet was lost.
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "--retransmission", "go-back-n"}).qp_timeout, 14);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "--retransmission", "go-back-n", "-u", "17"}).qp_timeout, 17);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-u", "0"}).qp_timeout, 0);
}

TEST(Status, SilenceIsExplainedByTheLoad) {
  EXPECT_NE(silence_advice(22, 2).find("22 threads want the 2 CPUs of this machine"), std::string::npos);
  EXPECT_NE(silence_advice(2, 2).find("UDP port 4791"), std::string::npos);
}

TEST(Defaults, FollowOtherOptions) {
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-n", "20"}).tx_depth, 20u);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "8", "-t", "16"}).cq_mod, 16u);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-D", "8"}).margin_s, 2.0);
  EXPECT_TRUE(accepted({"uroce_write_bw", "--", "-D", "8"}).no_peak);
  EXPECT_TRUE(accepted({"uroce_write_bw", "--", "-n", "20001"}).no_peak);
  EXPECT_FALSE(accepted({"uroce_write_bw", "--", "-n", "20000"}).no_peak);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "8", "-l", "32", "-n", "6400"}).cq_mod, 32u);
}

TEST(Defaults, TwoUntouchedSidesHaveTwoAddresses) {
  EXPECT_TRUE(accepted({"uroce_write_bw"}).stack.addresses.empty());
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "host"}).stack.addresses, (std::vector<std::string>{"10.117.0.101/24"}));
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "--address", "192.0.2.7/24", "host"}).stack.addresses,
            (std::vector<std::string>{"192.0.2.7/24"}));
  EXPECT_TRUE(accepted({"uroce_write_bw", "--", "--back-to-back"}).stack.addresses.empty());
  EXPECT_TRUE(accepted({"uroce_write_bw", "--", "--interface", "eth0", "host"}).stack.addresses.empty());
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "--interface", "eth0", "--vlan", "7", "host"}).stack.addresses,
            (std::vector<std::string>{"10.117.0.101/24"}));
}

TEST(Options, AllOfThemAreRead) {
  const Options o = accepted({"uroce_atomic_bw",
                              "--",
                              "-n",
                              "2000",
                              "-q",
                              "3",
                              "-t",
                              "64",
                              "-m",
                              "4096",
                              "-b",
                              "-p",
                              "19000",
                              "-F",
                              "-o",
                              "16",
                              "-u",
                              "18",
                              "-N",
                              "-Q",
                              "10",
                              "-d",
                              "uroce1",
                              "-A",
                              "CMP_AND_SWAP",
                              "-x",
                              "2",
                              "--report_gbits",
                              "--verify",
                              "--port-mtu",
                              "4200",
                              "--vlan",
                              "7",
                              "--idle",
                              "busy",
                              "--tx-mode",
                              "copy",
                              "--icrc",
                              "table",
                              "--retransmission",
                              "selective",
                              "--congestion-control",
                              "swift",
                              "--peer-timeout",
                              "3",
                              "--connect-timeout",
                              "4",
                              "--gateway",
                              "192.0.2.254",
                              "--out_json",
                              "host"});
  EXPECT_EQ(o.iters, 2000u);
  EXPECT_EQ(o.qps, 3u);
  EXPECT_EQ(o.tx_depth, 64u);
  EXPECT_EQ(o.mtu, 4096u);
  EXPECT_TRUE(o.bidirectional);
  EXPECT_EQ(o.port, 19000);
  EXPECT_EQ(o.outs, 16u);
  EXPECT_EQ(o.qp_timeout, 18);
  EXPECT_TRUE(o.no_peak);
  EXPECT_EQ(o.cq_mod, 10u);
  EXPECT_EQ(o.device, "uroce1");
  EXPECT_EQ(o.atomic_type, AtomicType::cmp_and_swap);
  EXPECT_EQ(o.gid_index, 2);
  EXPECT_TRUE(o.report_gbits);
  EXPECT_TRUE(o.verify);
  EXPECT_EQ(o.stack.mtu, 4200);
  EXPECT_EQ(o.stack.vlan, 7);
  EXPECT_EQ(o.stack.idle, IdlePolicy::busy);
  EXPECT_EQ(o.stack.tx_mode, StackOptions::TxMode::copy);
  EXPECT_EQ(o.stack.icrc, "table");
  EXPECT_EQ(o.retransmission, Retransmission::selective);
  EXPECT_EQ(o.congestion_control, CongestionAlgorithm::swift);
  EXPECT_EQ(o.peer_timeout_s, 3.0);
  EXPECT_EQ(o.connect_timeout_s, 4.0);
  EXPECT_EQ(o.stack.gateway, "192.0.2.254");
  EXPECT_EQ(o.out_json_file, "perftest_out.json");
}

TEST(Options, SizesTakeSuffixes) {
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "64K"}).size, 65536u);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "1M"}).size, 1u << 20);
  EXPECT_EQ(accepted({"uroce_write_bw", "--", "-s", "2G"}).size, uint64_t{1} << 31);
}

TEST(Options, AllSizesAreThoseOfPerftest) {
  const std::vector<uint64_t> sizes = accepted({"uroce_write_bw", "--", "-a"}).sizes();
  EXPECT_EQ(sizes.size(), 23u);
  EXPECT_EQ(sizes.front(), 2u);
  EXPECT_EQ(sizes.back(), kMaxAllSize);
}

TEST(Refusals, NameTheOption) {
  EXPECT_NE(refused({"uroce_write_bw", "--", "--no-such-option"}).find("--no-such-option"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-s", "3G"}).find("-s"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-s", "lots"}).find("lots"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-m", "5000"}).find("5000"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-q", "0"}).find("0"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-n", "-5"}).find("--iters"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-c", "UD"}).find("UD"), std::string::npos);
  EXPECT_NE(refused({"uroce_perf", "raw_bw", "--", "-R"}).find("-R"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "one", "two"}).find("two"), std::string::npos);
  EXPECT_NE(refused({"uroce_perf", "--", "--back-to-back"}).find("write"), std::string::npos);
}

TEST(Refusals, ListTheWordsWhereANumberStands) {
  const std::vector<std::pair<const char*, const char*>> options{{"--idle", "busy, yield, sleep"},
                                                                 {"--tx-mode", "automatic, copy, external"},
                                                                 {"-A", "FETCH_AND_ADD, CMP_AND_SWAP, WRITE"},
                                                                 {"--retransmission", "auto, go-back-n, selective"},
                                                                 {"-c", "RC"},
                                                                 {"--congestion-control", "none, dcqcn, swift"},
                                                                 {"-m", "256, 512, 1024, 2048, 4096"},
                                                                 {"--icrc", "automatic"}};
  for (const auto& [option, words] : options) {
    EXPECT_NE(refused({"uroce_write_bw", "--", option, "2"}).find(std::string("'2' is none of ") + words),
              std::string::npos)
        << option;
  }
}

TEST(Refusals, NameAnUnknownTestAndTheOthers) {
  for (const auto& words : std::vector<std::vector<const char*>>{{"uroce_perf", "copy_bw", "-l", "0", "--", "host"},
                                                                 {"uroce_perf", "-l", "0", "--", "copy_bw"}}) {
    const std::string text = refused(words);
    EXPECT_NE(text.find("there is no test 'copy_bw'; write one of write_bw, write_lat, "), std::string::npos) << text;
    EXPECT_NE(text.find(", raw_lat"), std::string::npos) << text;
  }
}

TEST(Refusals, NameWhatExcludesWhat) {
  EXPECT_NE(refused({"uroce_write_lat", "--", "-q", "2"}).find("-q 2"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_lat", "--", "-b"}).find("-b"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_lat", "--", "-e"}).find("-e"), std::string::npos);
  EXPECT_NE(refused({"uroce_atomic_bw", "--", "-s", "16"}).find("8 bytes"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-a", "-s", "16"}).find("-a"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-l", "3", "-n", "1000"}).find("-n 1000"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-l", "500", "-n", "1000"}).find("-t 128"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "-D", "4", "-f", "2"}).find("-f 2"), std::string::npos);
  EXPECT_NE(refused({"uroce_write_bw", "--", "--back-to-back", "host"}).find("host"), std::string::npos);
}

TEST(HelpAndVersion, EndWithoutError) {
  for (const char* word : {"-h", "--help"}) {
    for (const bool dashes : {false, true}) {
      std::vector<const char*> words{"uroce_write_bw"};
      if (dashes) words.push_back("--");
      words.push_back(word);
      const auto options = parse(words);
      ASSERT_FALSE(options);
      EXPECT_EQ(options.error().code, 0);
      for (const char* part : {"Examples", "--tx-depth", "--verify", "-- "}) {
        EXPECT_NE(options.error().text.find(part), std::string::npos) << part;
      }
    }
  }
  const auto version = parse({"uroce_perf", "-V"});
  ASSERT_FALSE(version);
  EXPECT_EQ(version.error().code, 0);
  EXPECT_TRUE(version.error().text.starts_with("uroce_perf 0."));
}

}  // namespace
}  // namespace uroce::perf
