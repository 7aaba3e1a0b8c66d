#include "transport/congestion/pacer.h"

#include <gtest/gtest.h>

#include "units.h"

namespace uroce::transport {
namespace {

constexpr Nanos kBegin = std::chrono::milliseconds(1);

// Packets of `bytes` that may leave at `now`.
int send_all(Pacer& pacer, uint32_t bytes, uint64_t rate, Nanos now) {
  int packets = 0;
  for (; pacer.may_send(now) && packets < 1'000'000; ++packets) pacer.charge(bytes, rate, now);
  return packets;
}

TEST(Pacer, SpacesPacketsByTheirTimeAtTheRate) {
  Pacer pacer;
  EXPECT_TRUE(pacer.may_send(kBegin));
  send_all(pacer, 1000, 8 * kGiga, kBegin);  // a microsecond each
  const Nanos next = pacer.next_send();
  EXPECT_FALSE(pacer.may_send(next - Nanos(1)));
  EXPECT_TRUE(pacer.may_send(next));
  pacer.charge(1000, 8 * kGiga, next);
  EXPECT_EQ(pacer.next_send(), next + Nanos(1000));
  pacer.charge(500, 8 * kGiga, next + Nanos(1000));
  EXPECT_EQ(pacer.next_send(), next + Nanos(1500)) << "half as long for half a packet";
  pacer.charge(500, 4 * kGiga, next + Nanos(1500));
  EXPECT_EQ(pacer.next_send(), next + Nanos(2500)) << "twice as long at half the rate";
}

// 8.192 us at 8 Gb/s are eight packets of 1000 bytes, and the one whose turn it is.
TEST(Pacer, AQueuePairServedLateMayCatchUpWithEightMicroseconds) {
  Pacer pacer;
  EXPECT_EQ(send_all(pacer, 1000, 8 * kGiga, kBegin), 9);
  EXPECT_EQ(send_all(pacer, 1000, 8 * kGiga, kBegin + Nanos(3'000)), 3);
  EXPECT_EQ(send_all(pacer, 1000, 8 * kGiga, kBegin + std::chrono::seconds(1)), 9) << "no more after a long pause";
}

TEST(Pacer, FractionsOfANanosecondDoNotDrift) {
  Pacer pacer;
  Nanos now = kBegin;
  pacer.charge(1000, 3 * kGiga, now);  // 2666.67 ns
  const Nanos begin = pacer.next_send();
  for (int i = 0; i < 3'000'000; ++i) {
    now = std::max(now, pacer.next_send());
    pacer.charge(1000, 3 * kGiga, now);
  }
  EXPECT_NEAR(static_cast<double>((pacer.next_send() - begin).count()), 8e9, 2);
}

TEST(Pacer, NoGapIsLongerThanATenthOfASecond) {
  Pacer pacer;
  pacer.charge(4096, 1, kBegin);
  EXPECT_EQ(pacer.next_send(), kBegin - Pacer::kMaxBurst + Pacer::kLongestGap);
  // The time that the cap cut off is not charged later.
  const Nanos next = pacer.next_send();
  pacer.charge(1000, 8 * kGiga, next);
  EXPECT_LE(pacer.next_send(), next + Nanos(1001));
}

TEST(Pacer, StoppingLetsTheNextPacketLeaveAtOnce) {
  Pacer pacer;
  pacer.charge(4096, 1'000'000, kBegin);
  EXPECT_FALSE(pacer.may_send(kBegin));
  pacer.stop();
  EXPECT_TRUE(pacer.may_send(kBegin));
}

TEST(Pacer, RequestsAndResponsesTakeTurns) {
  Pacer pacer;
  const bool first = pacer.take_turn_for_requests();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(pacer.take_turn_for_requests(), !first);
    EXPECT_EQ(pacer.take_turn_for_requests(), first);
  }
}

}  // namespace
}  // namespace uroce::transport
