#include "transport/loss/send_times.h"

#include <gtest/gtest.h>

#include <array>

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

TEST(SendTimes, ABlockCoversTheWholeWindow) {
  SendTimes times(64);
  const Psn sent(3);
  EXPECT_FALSE(times.is_whole());
  EXPECT_FALSE(times.covers(sent - 17, sent));
  for (uint16_t age = 1; age <= 16; ++age) times[sent - age] = {Stamp(), age};
  alignas(Departure) std::array<std::byte, 64 * sizeof(Departure)> block;
  block.fill(std::byte{0xff});  // what another queue pair left
  times.lengthen(block.data(), sent);
  EXPECT_TRUE(times.is_whole());
  EXPECT_TRUE(times.covers(sent - 64, sent));
  EXPECT_EQ(times[sent - 17].times, 0u);
  EXPECT_EQ(times[sent - 64].times, 0u);
  for (uint16_t age = 1; age <= 16; ++age) EXPECT_EQ(times[sent - age].times, age);
  for (uint16_t i = 0; i < 40; ++i) times[sent + i] = {Stamp(), static_cast<uint16_t>(100 + i)};
  EXPECT_EQ(times.shorten(sent + 40), block.data());
  EXPECT_FALSE(times.covers(sent + 23, sent + 40));
  for (uint16_t i = 24; i < 40; ++i) EXPECT_EQ(times[sent + i].times, 100u + i);
  EXPECT_EQ(times.shorten(sent + 40), nullptr);
}

}  // namespace
}  // namespace uroce::transport
