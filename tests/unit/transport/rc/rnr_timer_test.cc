#include "transport/rc/acknowledge.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(RnrTimer, DelaysAreThoseOfTable46) {
  EXPECT_EQ(rnr_delay(0), Nanos(655'360'000));
  EXPECT_EQ(rnr_delay(1), Nanos(10'000));
  EXPECT_EQ(rnr_delay(12), Nanos(640'000));
  EXPECT_EQ(rnr_delay(31), Nanos(491'520'000));
}

}  // namespace
}  // namespace uroce::transport
