#include "transport/congestion/swift.h"

#include <gtest/gtest.h>

#include "units.h"

namespace uroce::transport {
namespace {

using std::chrono::microseconds;

AckSample ack(Nanos now, Nanos rtt, uint32_t packets = 1) { return {.now = now, .rtt = rtt, .packets = packets}; }

// No flow scaling: the target is 25 us whatever the window.
SwiftSettings flat() {
  SwiftSettings settings;
  settings.flow_scaling_us = 0;
  return settings;
}

// A flow that has left its start behind with a window of 4: a delay just at the target takes nothing away.
Swift started(const SwiftSettings& settings) {
  Swift control(settings, 1000, 256, at(0));
  control.on_ack(ack(at(1), at(25)));
  return control;
}

TEST(Swift, DoublesUntilTheDelayReachesTheTarget) {
  const SwiftSettings settings = flat();
  Swift control(settings, 1000, 256, at(0));
  EXPECT_EQ(control.window(), 4u);
  EXPECT_EQ(control.rate(), 0u);
  control.on_ack(ack(at(10), at(10), 4));
  EXPECT_EQ(control.window(), 8u);
  control.on_ack(ack(at(20), at(10), 8));
  EXPECT_EQ(control.window(), 16u);
  control.on_ack(ack(at(60), at(50), 1));  // 1 - 0.8 * (50 - 25) / 50
  EXPECT_DOUBLE_EQ(control.congestion_window(), 16 * 0.6);
  control.on_ack(ack(at(70), at(10), 9));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 9.6 + 9 / 9.6);
}

TEST(Swift, GrowsByOnePacketInARoundTrip) {
  const SwiftSettings settings = flat();
  Swift control = started(settings);
  control.on_ack(ack(at(30), at(24), 2));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 4.5);
  control.on_ack(ack(at(31), at(0), 4));  // tells no delay: counted with the next that does
  EXPECT_DOUBLE_EQ(control.congestion_window(), 4.5);
  control.on_ack(ack(at(32), at(24), 5));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 6.5);
}

TEST(Swift, DecreasesOnceInARoundTripAndByHalfAtMost) {
  const SwiftSettings settings = flat();
  Swift control = started(settings);
  control.on_ack(ack(at(100), at(30)));  // 1 - 0.8 * 5 / 30
  EXPECT_DOUBLE_EQ(control.congestion_window(), 4 * (1 - 0.8 * 5 / 30));
  const double window = control.congestion_window();
  control.on_ack(ack(at(129), at(30)));
  control.on_loss(at(129));
  control.on_timeout(at(129));
  EXPECT_DOUBLE_EQ(control.congestion_window(), window);
  control.on_ack(ack(at(130), at(30)));
  EXPECT_LT(control.congestion_window(), window);
  const double before = control.congestion_window();
  control.on_ack(ack(at(5000), at(1000)));  // 1 - 0.8 * 975 / 1000 would be 0.22
  EXPECT_DOUBLE_EQ(control.congestion_window(), before / 2);
}

// alpha = 50 / (1 / sqrt(0.1) - 1 / sqrt(100)) = 16.3275 us, beta = -1.63275 us.
TEST(Swift, SmallWindowsMayWaitLonger) {
  const SwiftSettings settings;
  Swift control(settings, 1000, 256, at(0));
  EXPECT_NEAR(static_cast<double>(control.target_delay().count()), 25'000 + 16'327.5 / 2 - 1'632.75, 2);
  control.on_ack(ack(at(1), at(1), 252));
  EXPECT_EQ(control.window(), 256u);
  EXPECT_EQ(control.target_delay(), at(25));
  for (int i = 1; i <= 40; ++i) control.on_ack(ack(at(i * 100'000), at(10'000)));
  EXPECT_LT(control.congestion_window(), 0.1);
  EXPECT_EQ(control.target_delay(), at(75));
}

// 500 bytes' worth of a 1000-byte packet in 100 us: 40 Mb/s.
TEST(Swift, LessThanOnePacketIsPaced) {
  const SwiftSettings settings = flat();
  Swift control = started(settings);
  for (int i = 1; i <= 3; ++i) control.on_loss(at(i * 1000));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 0.5);
  EXPECT_EQ(control.window(), 1u);
  EXPECT_EQ(control.rate(), 160'000'000u);  // with the round trip of 25 us
  control.on_ack(ack(at(4000), at(24)));    // below one, each packet counts whole
  EXPECT_DOUBLE_EQ(control.congestion_window(), 1.5);
  EXPECT_EQ(control.rate(), 0u);
}

TEST(Swift, ManyTimeoutsInARowLeaveTheLeastWindow) {
  const SwiftSettings settings = flat();
  Swift control = started(settings);
  for (int i = 1; i <= 4; ++i) control.on_timeout(at(i * 1000));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 0.25);
  control.on_timeout(at(4001));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 0.001);
  EXPECT_EQ(control.window(), 1u);
  EXPECT_EQ(control.rate(), 320'000u);
}

TEST(Swift, AnArrivalEndsTheRowOfTimeouts) {
  const SwiftSettings settings = flat();
  Swift control = started(settings);
  for (int i = 1; i <= 4; ++i) control.on_timeout(at(i * 1000));
  control.on_ack(ack(at(4500), at(0)));
  control.on_timeout(at(5000));
  EXPECT_DOUBLE_EQ(control.congestion_window(), 0.125);
}

TEST(Swift, IsBoundedByTheWindowOfTheQueuePair) {
  const SwiftSettings settings = flat();
  Swift control(settings, 1000, 6, at(0));
  control.on_ack(ack(at(10), at(10), 100));
  EXPECT_EQ(control.window(), 6u);
  Swift narrow(settings, 1000, 1, at(0));
  EXPECT_EQ(narrow.window(), 1u);
}

}  // namespace
}  // namespace uroce::transport
