#include "transport/loss/send_times.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(Stamp, ComparesAcrossItsWrap) {
  const Nanos wrap(int64_t{1} << 38);
  EXPECT_EQ(Stamp(wrap + Nanos(6'400)).since(Stamp(wrap - Nanos(6'400))), Nanos(12'800));
  EXPECT_EQ(Stamp(wrap - Nanos(6'400)).since(Stamp(wrap + Nanos(6'400))), Nanos(-12'800));
}

TEST(Stamp, CountsInUnitsOf64Nanoseconds) {
  EXPECT_EQ(Stamp(Nanos(128)).since(Stamp(Nanos(64))), Nanos(64));
  EXPECT_EQ(Stamp(Nanos(127)).since(Stamp(Nanos(64))), Nanos(0));
}

TEST(SendTimes, RemembersTheNewestPackets) {
  SendTimes times(5);  // rounded up to 8
  const Psn sent(3);   // PSNs have wrapped
  EXPECT_TRUE(times.covers(sent - 1, sent));
  EXPECT_TRUE(times.covers(sent - 8, sent));
  EXPECT_FALSE(times.covers(sent - 9, sent));
  EXPECT_FALSE(times.covers(sent, sent)) << "not sent yet";
  times[sent - 1] = {Stamp(Nanos(6'400)), 2};
  EXPECT_EQ(times[sent - 1].times, 2u);
  EXPECT_EQ(times[sent - 8].times, 0u);
  EXPECT_EQ(times[sent + 7].times, 2u) << "eight packets later its place is used again";
  times.clear();
  EXPECT_EQ(times[sent - 1].times, 0u);
}

}  // namespace
}  // namespace uroce::transport
