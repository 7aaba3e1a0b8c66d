// The report: perftest's members are where its readers look for them.
#include "perf/json_report.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "options_for.h"

namespace uroce::perf {
namespace {

Setting setting() {
  Setting s;
  s.device.name = "uroce0";
  s.device.driver = "net_memif";
  s.path_mtu = 4096;
  return s;
}

TEST(JsonReport, BandwidthHasPerftestsMembers) {
  const SizeReport r{1 << 20, 1000, 2.0, 600, {}, 0};
  const auto json =
      nlohmann::json::parse(json_report(options_for({"uroce_write_bw", "--", "-s", "1M"}), setting(), {r}));
  EXPECT_EQ(json["test_info"]["test"], "RDMA_Write_BW_Test");
  EXPECT_EQ(json["test_info"]["Device"], "uroce0");
  EXPECT_EQ(json["test_info"]["Mtu"], 4096);
  EXPECT_EQ(json["results"]["MsgSize"], 1 << 20);
  EXPECT_EQ(json["results"]["n_iterations"], 1000);
  EXPECT_EQ(json["results"]["BW_average"], 500.0);
  EXPECT_EQ(json["results"]["BW_peak"], 600.0);
  EXPECT_EQ(json["results"]["MsgRate"], 0.0005);
}

TEST(JsonReport, GigabitsAreDecimal) {
  const SizeReport r{1000, 1'000'000, 1.0, 0, {}, 0};
  const auto json = nlohmann::json::parse(
      json_report(options_for({"uroce_send_bw", "--", "--report_gbits", "-s", "1000"}), setting(), {r}));
  EXPECT_EQ(json["results"]["BW_average"], 8.0);
  EXPECT_EQ(json["results"]["unit"], "Gb/sec");
}

TEST(JsonReport, LatencyHasPerftestsMembers) {
  SizeReport r{2, 1000, 0.01, 0, {1, 9, 2, 2.5, 0.25, 5, 8}, 0};
  const auto json = nlohmann::json::parse(json_report(options_for({"uroce_send_lat"}), setting(), {r}));
  EXPECT_EQ(json["test_info"]["test"], "Send_Latency_Test");
  const std::pair<const char*, double> members[] = {{"t_min", 1},          {"t_max", 9},      {"t_typical", 2},
                                                    {"t_avg", 2.5},        {"t_stdev", 0.25}, {"percentile_99", 5},
                                                    {"percentile_99.9", 8}};
  for (const auto& [name, value] : members) EXPECT_EQ(json["results"][name], value) << name;
}

TEST(JsonReport, ListsAllSizes) {
  const SizeReport a{2, 5, 1, 0, {}, 0}, b{4, 5, 1, 0, {}, 0};
  const auto json = nlohmann::json::parse(json_report(options_for({"uroce_write_bw", "--", "-a"}), setting(), {a, b}));
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][0]["MsgSize"], 2);
  EXPECT_EQ(json["results"]["MsgSize"], 4);
}

TEST(JsonReport, FileThatCannotBeWrittenIsNamed) {
  const auto written = write_file("/no/such/folder/report.json", "{}");
  ASSERT_FALSE(written.has_value());
  EXPECT_NE(written.error().text.find("/no/such/folder/report.json"), std::string::npos);
}

}  // namespace
}  // namespace uroce::perf
