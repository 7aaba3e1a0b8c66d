#include "metrics/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "metrics/counter_table.h"

namespace uroce::metrics {
namespace {

State state() {
  State out{.version = "1.2.3"};
  out.devices = {{"uroce0", true, 4096, {{"rx_bytes", 7}, {"drop_icrc", 2}, {"drop_pkey", 3}, {"unheard_of", 9}}},
                 {"uroce1", false, 1024, {{"rx_bytes", 8}, {"drop_icrc", 0}}}};
  out.engines = {{.engine = 1, .values = {{"busy_ns", 1'500'000'001}, {"waiting_qps", 4}}}};
  out.users = {{.uid = 5, .privileged = false, .refusals = 6, .budgets = {{"qp", 1, 10}, {"queue_bytes", 4096, 8192}}}};
  return out;
}

testing::AssertionResult has(const std::string& page, std::string_view line) {
  if (page.find(std::string(line) + '\n') != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no line \"" << line << "\" in\n" << page;
}

TEST(Page, HasDevicesEnginesAndUsers) {
  const std::string text = page(state(), Format::openmetrics);
  EXPECT_TRUE(has(text, "uroce_build_info{version=\"1.2.3\"} 1"));
  EXPECT_TRUE(has(text, "uroce_link_up{device=\"uroce1\"} 0"));
  EXPECT_TRUE(has(text, "# TYPE uroce_rx_bytes counter"));
  EXPECT_TRUE(has(text, "# UNIT uroce_rx_bytes bytes"));
  EXPECT_TRUE(has(text, "uroce_rx_bytes_total{device=\"uroce0\"} 7"));
  EXPECT_TRUE(has(text, "uroce_rx_dropped_packets_total{device=\"uroce0\",reason=\"pkey\"} 3"));
  EXPECT_TRUE(has(text, "uroce_engine_busy_seconds_total{engine=\"1\"} 1.500000001"));
  EXPECT_TRUE(has(text, "uroce_user_budget_limit{uid=\"5\",privileged=\"no\",resource=\"qp\"} 10"));
  EXPECT_TRUE(has(text, "uroce_user_budget_used_bytes{uid=\"5\",privileged=\"no\",resource=\"queue\"} 4096"));
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  EXPECT_EQ(text.find("unheard_of"), std::string::npos);
}

TEST(Page, TheOlderFormatNamesTheWholeCounter) {
  const std::string text = page(state(), Format::prometheus);
  EXPECT_TRUE(has(text, "# TYPE uroce_rx_bytes_total counter"));
  EXPECT_TRUE(has(text, "uroce_rx_bytes_total{device=\"uroce1\"} 8"));
  EXPECT_EQ(text.find("# UNIT"), std::string::npos);
  EXPECT_EQ(text.find("# EOF"), std::string::npos);
}

TEST(Page, EachFamilyBeginsOnce) {
  const std::string text = page(state(), Format::openmetrics);
  std::set<std::string> seen;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos;) {
    const std::size_t end = text.find('\n', at);
    EXPECT_TRUE(seen.insert(text.substr(at, end - at)).second) << text.substr(at, end - at);
    at = end;
  }
  EXPECT_GT(seen.size(), 20u);
}

TEST(Page, BoundsItsClientsAndTrustsNoName) {
  State many = state();
  many.clients.resize(kMostClients + 3);
  many.clients[0].command = "a\"b\\c\n\xff";
  const std::string text = page(many, Format::openmetrics);
  EXPECT_TRUE(has(text, "uroce_clients 1003"));
  EXPECT_TRUE(has(text, "uroce_clients_left_out 3"));
  EXPECT_TRUE(has(text,
                  "uroce_client_calls_total{client=\"0\",pid=\"0\",uid=\"0\",command=\"a\\\"b\\\\c??\","
                  "device=\"\"} 0"));
}

TEST(CounterTable, NamesEachCounterOnceAndSaysWhatItMeans) {
  std::set<std::string_view> seen;
  for (const auto& [counter, meaning] : device_counters()) {
    EXPECT_TRUE(seen.insert(counter).second) << counter;
    EXPECT_FALSE(meaning.empty() || meaning.ends_with('.') || meaning.contains('|')) << counter;
  }
  EXPECT_EQ(metric_of("rx_packets").family, "uroce_rx_packets");
  EXPECT_EQ(metric_of("drop_icrc").family, "uroce_rx_dropped_packets");
  EXPECT_EQ(metric_of("drop_icrc").reason, "icrc");
  EXPECT_EQ(metric_of("failed_retry_exceeded").family, "uroce_failed_completions");
  EXPECT_EQ(metric_of("nak_sent_remote_access").reason, "remote_access");
}

}  // namespace
}  // namespace uroce::metrics
