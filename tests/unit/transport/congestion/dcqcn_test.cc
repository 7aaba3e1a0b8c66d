#include "transport/congestion/dcqcn.h"

#include <gtest/gtest.h>

#include "units.h"

namespace uroce::transport {
namespace {

using std::chrono::microseconds;

// 40 Gb/s, and a byte counter that is out of the way.
DcqcnSettings quiet() {
  DcqcnSettings settings;
  settings.line_rate_mbps = 40'000;
  settings.byte_counter_kib = 1 << 20;
  return settings;
}

TEST(Dcqcn, PaysNothingUntilTheFirstReport) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  control.on_sent(1 << 30, at(0));
  control.on_loss(at(1));
  control.on_timer(at(1000));
  EXPECT_EQ(control.rate(), 0u);
  EXPECT_EQ(control.next_deadline(), kNever);
}

// Equation 1 with alpha 1, then 1 again: (1 - g) + g.
TEST(Dcqcn, TheFirstReportsHalveTheRate) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  EXPECT_EQ(control.rate(), 20 * kGiga);
  EXPECT_EQ(control.alpha(), 1.0);
  EXPECT_EQ(control.next_deadline(), at(55));
  control.on_cnp(at(50));
  EXPECT_EQ(control.rate(), 10 * kGiga);
}

// Target 40, current 20: 30, 35, 37.5, 38.75, 39.375 in the five steps of fast recovery.
TEST(Dcqcn, FastRecoveryHalvesTheWayBack) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  control.on_timer(at(54));
  EXPECT_EQ(control.rate(), 20 * kGiga);
  const uint64_t expected[] = {30'000, 35'000, 37'500, 38'750, 39'375};
  for (int step = 1; step <= 5; ++step) {
    control.on_timer(at(55 * step));
    EXPECT_EQ(control.rate(), expected[step - 1] * 1'000'000) << step;
  }
}

// Two cuts leave target 20 and current 10. After fast recovery 19.6875; then the target rises by 40 Mb/s a step.
TEST(Dcqcn, AdditiveIncreaseRaisesTheTarget) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  control.on_cnp(at(50));
  control.on_timer(at(50 + 5 * 55));
  EXPECT_EQ(control.rate(), 19'687'500'000u);
  control.on_timer(at(50 + 6 * 55));
  EXPECT_EQ(control.rate(), 19'863'750'000u);  // (19.6875 + 20.04) / 2
  control.on_timer(at(50 + 7 * 55));
  EXPECT_EQ(control.rate(), 19'971'875'000u);  // (19.86375 + 20.08) / 2
}

// Both the timer and the counter have done five steps: the sixth of both raises the target by 400 Mb/s.
TEST(Dcqcn, HyperIncreaseTakesTimerAndCounter) {
  DcqcnSettings settings = quiet();
  settings.byte_counter_kib = 1;
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  control.on_cnp(at(50));
  control.on_timer(at(50 + 5 * 55));
  EXPECT_EQ(control.rate(), 19'687'500'000u);
  for (int i = 0; i < 5; ++i) control.on_sent(1025, at(326));  // one step each, within fast recovery
  EXPECT_EQ(control.rate(), 19'990'234'375u);                  // 20 - 0.3125 / 32
  control.on_sent(1025, at(327));                              // additive: the timer has done five
  EXPECT_EQ(control.rate(), 20'015'117'187u);                  // (19.990234375 + 20.04) / 2
  control.on_timer(at(50 + 6 * 55));                           // hyper
  EXPECT_EQ(control.rate(), 20'227'558'593u);                  // (20.0151171875 + 20.44) / 2
}

// Equation 2: alpha decays by 1 - g in each 55 us without a report.
TEST(Dcqcn, AlphaDecaysWithoutReports) {
  DcqcnSettings settings = quiet();
  settings.gain = 0.5;
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  control.on_cnp(at(2 * 55));
  // Two decays make alpha 1/4; the rate had come back to 35 Gb/s by then.
  EXPECT_EQ(control.rate(), 30'625'000'000u);  // 35 * (1 - 1/8)
  EXPECT_EQ(control.alpha(), 0.625);           // 1/2 * 1/4 + 1/2
}

TEST(Dcqcn, IsNeverSlowerThanTheLeastRate) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  for (int i = 0; i < 100; ++i) control.on_cnp(at(i));
  EXPECT_EQ(control.rate(), 100'000'000u);
  for (int i = 0; i < 100; ++i) control.on_timeout(at(100 + i));
  EXPECT_EQ(control.rate(), 100'000'000u);
}

TEST(Dcqcn, StopsPacingOnceItIsBackAtLineRate) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  control.on_cnp(at(0));
  int64_t us = 0;
  while (control.rate() != 0 && us < 10'000) control.on_timer(at(++us));
  EXPECT_EQ(us, 13 * 55);  // half of 2^-13 is below a ten-thousandth
  EXPECT_EQ(control.next_deadline(), kNever);
  control.on_cnp(at(us + 1));  // and begins again from there
  EXPECT_GT(control.rate(), 20 * kGiga);
}

// 40 Gb/s for 100 us are 4 Mbit: 120.2 packets of 4160 bytes, and a quarter more.
TEST(Dcqcn, TheWindowIsWhatTheLineHolds) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  EXPECT_EQ(control.window(), 64u);  // the least
  control.on_ack({.now = at(20), .rtt = at(0), .packets = 4});
  EXPECT_EQ(control.window(), 64u);
  control.on_ack({.now = at(40), .rtt = at(100), .packets = 4});
  EXPECT_EQ(control.window(), 150u);
  control.on_ack({.now = at(90), .rtt = at(200), .packets = 4});  // a queue is no reason to fill it
  EXPECT_EQ(control.window(), 150u);
  control.on_ack({.now = at(95), .rtt = at(60), .packets = 4});
  EXPECT_EQ(control.window(), 90u);
  Dcqcn far(settings, 4160, 256);
  far.on_ack({.now = at(1000), .rtt = at(900), .packets = 4});
  EXPECT_EQ(far.window(), 256u);
}

// More packets than 32 bits count. A forged snapshot, or a peer, says that the round trip took so long.
TEST(Dcqcn, ARoundTripOfMinutesIsAWholeWindow) {
  DcqcnSettings settings = quiet();
  settings.line_rate_mbps = 400'000;
  Dcqcn control(settings, 316, 256);
  control.on_ack({.now = at(0), .rtt = std::chrono::minutes(10), .packets = 1});
  EXPECT_EQ(control.window(), 256u);
}

TEST(Dcqcn, CatchesUpInBoundedSteps) {
  const DcqcnSettings settings = quiet();
  Dcqcn control(settings, 4160, 256);
  for (int i = 0; i < 20; ++i) control.on_cnp(at(i));
  const Nanos late = at(60'000'000);
  int calls = 0;
  for (; control.next_deadline() <= late; ++calls) control.on_timer(late);
  EXPECT_EQ(control.rate(), 0u);
  EXPECT_GT(calls, 1);
  EXPECT_LT(calls, 100);
}

}  // namespace
}  // namespace uroce::transport
