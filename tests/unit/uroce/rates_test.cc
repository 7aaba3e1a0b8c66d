#include "uroce/rates.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace uroce::cli {
namespace {

using namespace std::chrono_literals;

Sample sample(std::chrono::milliseconds at, std::vector<CounterRow> counters) {
  return {.at = std::chrono::steady_clock::time_point(at), .counters = std::move(counters)};
}

TEST(Rates, AreWhatCountersGrewBy) {
  const Sample before = sample(0ms, {{"uroce0", {{"rx_packets", 100}, {"timeouts", 0}}}});
  const Sample after = sample(2000ms, {{"uroce0", {{"rx_packets", 300}, {"timeouts", 0}}}});
  const auto rates = rates_between(before, after);
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates[0].rates[0].total, 300u);
  EXPECT_DOUBLE_EQ(rate_of(rates[0], "rx_packets"), 100);
  EXPECT_DOUBLE_EQ(rate_of(rates[0], "no such"), 0);
  EXPECT_EQ(rates_table(rates, false),
            "DEVICE  COUNTER     TOTAL  PER SECOND\nuroce0  rx_packets    300         100\n");
  EXPECT_NE(rates_table(rates, true).find("timeouts"), std::string::npos);
  EXPECT_EQ(rates_table(rates, false, true),
            "DEVICE  COUNTER     GROWTH  PER SECOND\nuroce0  rx_packets     200         100\n");
  const auto json = nlohmann::json::parse(rates_json(rates, {}));
  EXPECT_EQ(json[0]["counters"]["rx_packets"], 300);
  EXPECT_EQ(json[0]["per_second"]["rx_packets"], 100.0);
}

TEST(Rates, ADaemonStartedAnewCountsFromNothing) {
  const Sample before = sample(0ms, {{"uroce0", {{"rx_packets", 1000}}}});
  const Sample after = sample(1000ms, {{"uroce0", {{"rx_packets", 10}, {"new", 5}}}, {"uroce1", {{"rx_packets", 7}}}});
  const auto rates = rates_between(before, after);
  EXPECT_DOUBLE_EQ(rate_of(rates[0], "rx_packets"), 10);
  EXPECT_DOUBLE_EQ(rate_of(rates[0], "new"), 5);
  EXPECT_DOUBLE_EQ(rate_of(rates[1], "rx_packets"), 7);
}

TEST(Rates, SinceASampleInAFile) {
  const auto written = std::chrono::system_clock::time_point(1'700'000'000s);
  const Sample first = sample(0ms, {{"uroce0", {{"rx_packets", 100}}}});
  const Now now{std::chrono::steady_clock::time_point(9000ms), written + 4s};
  const auto before = sample_in(rates_json(rates_between({}, first), written), now);
  ASSERT_TRUE(before);
  const auto rates = rates_between(*before, sample(9000ms, {{"uroce0", {{"rx_packets", 500}}}}));
  EXPECT_EQ(rates[0].rates[0].growth, 400u);
  EXPECT_DOUBLE_EQ(rate_of(rates[0], "rx_packets"), 100);
  for (const char* text :
       {"", "7", "{}", "[]", "[1]", R"([{"device": "a"}])", R"([{"device": "a", "time_ms": "x", "counters": {}}])",
        R"([{"device": "a", "time_ms": 1, "counters": {"b": "c"}}])"}) {
    EXPECT_FALSE(sample_in(text, now)) << text;
  }
}

TEST(Rates, NothingIsMeasuredWithoutTime) {
  const Sample one = sample(5ms, {{"uroce0", {{"rx_packets", 10}}}});
  EXPECT_DOUBLE_EQ(rate_of(rates_between({}, one)[0], "rx_packets"), 0);
  EXPECT_DOUBLE_EQ(rate_of(rates_between(one, one)[0], "rx_packets"), 0);
}

}  // namespace
}  // namespace uroce::cli
