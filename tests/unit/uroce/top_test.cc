#include "uroce/top.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "uroce/table.h"

namespace uroce::cli {
namespace {

using namespace std::chrono_literals;

Sample sample_at(std::chrono::milliseconds at, std::vector<CounterRow> counters) {
  return {.at = std::chrono::steady_clock::time_point(at), .counters = std::move(counters)};
}

ObjectRow qp(const char* qpn, const char* sq_psn, const char* rq_psn) {
  return {.device = "uroce0",
          .client = 2,
          .values = {{"qpn", qpn},
                     {"type", "RC"},
                     {"state", "RTS"},
                     {"engine", "0"},
                     {"sq_psn", sq_psn},
                     {"rq_psn", rq_psn},
                     {"srtt_us", "12.5"},
                     {"window", "128"},
                     {"rate_mbps", "line"},
                     {"resent_timeout", "0"},
                     {"dgid", "fe80::1234:5678:9abc:def0"}}};
}

std::size_t longest(const std::string& text) {
  std::size_t most = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    most = std::max(most, end - at);
    at = end + 1;
  }
  return most;
}

struct TopTest : testing::Test {
  Sample before = sample_at(0ms, {{"uroce0", {{"rx_bytes", 0}, {"rx_packets", 0}, {"drop_icrc", 0}, {"drop_x", 0}}}});
  Sample after = sample_at(
      1000ms, {{"uroce0", {{"rx_bytes", 1'250'000'000}, {"rx_packets", 5'000'000}, {"drop_icrc", 3}, {"drop_x", 4}}}});

  TopTest() {
    before.engines = {{.engine = 0, .values = {{"busy_ns", 1'000'000'000}, {"rounds", 10}}}};
    after.engines = {{.engine = 0, .values = {{"busy_ns", 1'250'000'000}, {"rounds", 5010}, {"waiting_qps", 3}}}};
    before.qps = {qp("0x000011", "16777210", "5"), qp("0x000012", "1", "1")};
    after.qps = {qp("0x000012", "3", "1"), qp("0x000011", "4", "105"), qp("0x000013", "9", "9")};
    after.clients.resize(2);
    after.clients[0].id = 1;
    after.clients[1].id = 2;
    after.clients[1].qps = 3;
  }
};

TEST_F(TopTest, ShowsEnginesDevicesQueuePairsAndConnections) {
  const std::string view = top_view(before, after, {});
  EXPECT_NE(view.find("     0  25 %     5.0 k         0         0            3"), std::string::npos) << view;
  EXPECT_NE(view.find("10.00"), std::string::npos) << view;
  EXPECT_NE(view.find("5.0 M"), std::string::npos) << view;
  EXPECT_NE(view.find("        7\n"), std::string::npos) << view;
  EXPECT_NE(view.find("3 queue pairs\n"), std::string::npos) << view;
  EXPECT_NE(view.find("2 connections\n"), std::string::npos) << view;
}

TEST_F(TopTest, TheBusiestQueuePairComesFirstAndPsnsWrap) {
  const std::string view = top_view(before, after, {});
  const auto first = view.find("0x000011"), second = view.find("0x000012"), third = view.find("0x000013");
  EXPECT_LT(first, second) << view;
  EXPECT_LT(second, third) << view;
  EXPECT_NE(view.find("0x000011  RC    RTS         0        10       100"), std::string::npos) << view;
}

TEST_F(TopTest, TheBusiestConnectionComesFirst) {
  before.clients = after.clients;
  after.clients[0].traffic = {.rx_packets = 1000, .rx_bytes = 1'250'000, .tx_packets = 2000, .tx_bytes = 125'000'000};
  after.clients[0].command = "busy";
  after.clients[1].command = "idle";
  const std::string view = top_view(before, after, {});
  EXPECT_LT(view.find("busy"), view.find("idle")) << view;
  EXPECT_NE(view.find("0.01     1.00     1.0 k     2.0 k  busy"), std::string::npos) << view;
  before.clients[0].traffic = after.clients[0].traffic;
  EXPECT_GT(top_view(before, after, {}).find("busy"), top_view(before, after, {}).find("idle"));
}

TEST_F(TopTest, FitsAScreen) {
  for (const std::size_t columns : {80u, 160u, 20u}) {
    for (const std::size_t lines : {1u, 2u, 10u, 24u, 100u}) {
      const std::string view = top_view(before, after, {.lines = lines, .columns = columns});
      EXPECT_LE(longest(view), columns) << view;
      EXPECT_LE(static_cast<std::size_t>(std::ranges::count(view, '\n')), lines) << view;
    }
  }
  const std::string wide = top_view(before, after, {.lines = 0, .columns = 160});
  EXPECT_NE(wide.find("RTT us"), std::string::npos) << wide;
  const std::string narrow = top_view(before, after, {.lines = 0, .columns = 80});
  EXPECT_NE(narrow.find("PEER"), std::string::npos) << narrow;
}

TEST_F(TopTest, SaysWhyThereAreNoQueuePairs) {
  after.qps = {};
  EXPECT_NE(top_view(before, after, {}).find("3 queue pairs; rates are for root and the daemon's user to see\n"),
            std::string::npos);
  after.clients[1].qps = kMostQpsOfTop + 1;
  EXPECT_NE(top_view(before, after, {}).find("2001 queue pairs; too many to ask for each\n"), std::string::npos);
}

TEST(Fit, LeavesColumnsOutInOrder) {
  const std::vector<Column> columns{{"AAAA"}, {"BBBB"}, {"CCCC"}, {"DDDD"}};
  const std::vector<std::vector<std::string>> rows{{"1", "2", "3", "4"}};
  EXPECT_EQ(table(columns, rows, {}), "AAAA  BBBB  CCCC  DDDD\n1     2     3     4\n");
  EXPECT_EQ(table(columns, rows, {.columns = 16, .spare = {1, 3}}), "AAAA  CCCC  DDDD\n1     3     4\n");
  EXPECT_EQ(table(columns, rows, {.columns = 15, .spare = {1, 3}}), "AAAA  CCCC\n1     3\n");
  EXPECT_EQ(table(columns, rows, {.columns = 7, .spare = {3, 1}}), "AAAA  C\n1     3\n");
}

}  // namespace
}  // namespace uroce::cli
