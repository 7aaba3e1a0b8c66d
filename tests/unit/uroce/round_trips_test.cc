#include "uroce/round_trips.h"

#include <gtest/gtest.h>

namespace uroce::cli {
namespace {

using namespace std::chrono_literals;

TEST(RoundTrips, CountsTimesAndLosses) {
  RoundTrips trips;
  EXPECT_EQ(trips.text(), "0 of 0 answered");
  trips.lose();
  EXPECT_EQ(trips.text(), "0 of 1 answered");
  for (const auto time : {12us, 10us, 17us}) trips.add(time);
  EXPECT_EQ(trips.text(), "3 of 4 answered, min/avg/max 10.0/13.0/17.0 us");
}

}  // namespace
}  // namespace uroce::cli
