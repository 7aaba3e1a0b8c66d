#include "transport/congestion/congested_rounds.h"

#include <gtest/gtest.h>

#include "transport/congestion/dcqcn.h"
#include "transport/congestion/swift.h"
#include "units.h"

namespace uroce::transport {
namespace {

TEST(CongestedRounds, CountReportsWithoutAPauseOfARound) {
  CongestedRounds rounds;
  rounds.on_report(at(100), at(50));
  EXPECT_EQ(rounds.count(at(100)), 1u);
  rounds.on_report(at(150), at(50));
  rounds.on_report(at(250), at(50));  // two rounds later: one of both may have lacked a report by a hair
  EXPECT_EQ(rounds.count(at(350)), 3u);
  EXPECT_EQ(rounds.count(at(351)), 0u);
  rounds.on_report(at(351), at(50));
  EXPECT_EQ(rounds.count(at(351)), 1u);
  rounds.begin_again();
  EXPECT_EQ(rounds.count(at(351)), 0u);
  rounds.on_report(at(401), at(50));
  EXPECT_EQ(rounds.count(at(401)), 1u);
}

TEST(CongestedRounds, OfDcqcnAreItsReports) {
  const DcqcnSettings settings;
  Dcqcn control(settings, 4160, 256);
  for (int i = 1; i <= 4; ++i) control.on_cnp(at(50 * i));
  EXPECT_EQ(control.congested_rounds().count(at(200)), 4u);
  control.on_timeout(at(250));  // says nothing of marks
  EXPECT_EQ(control.congested_rounds().count(at(250)), 4u);
}

TEST(CongestedRounds, OfSwiftAreRoundTripsWithADelayAboveTheTarget) {
  SwiftSettings settings;
  settings.flow_scaling_us = 0;
  Swift control(settings, 1000, 256, at(0));
  const auto ack = [&](int64_t us, int64_t rtt) { control.on_ack({.now = at(us), .rtt = at(rtt), .packets = 1}); };
  ack(100, 30);
  ack(110, 30);  // the same round trip
  EXPECT_EQ(control.congested_rounds().count(at(110)), 1u);
  ack(130, 20);
  ack(140, 30);
  EXPECT_EQ(control.congested_rounds().count(at(140)), 2u);
  ack(170, 20);
  ack(210, 30);
  EXPECT_EQ(control.congested_rounds().count(at(210)), 1u);
}

}  // namespace
}  // namespace uroce::transport
