// The code tables of the AETH and of the timeout attribute.
#include <gtest/gtest.h>

#include "transport/loss/ack_timeout.h"
#include "transport/qp/credits.h"
#include "transport/rc/rnr_timer.h"

namespace uroce::transport {
namespace {

TEST(AethCodes, CreditCodeIsTheLargestThatDoesNotPromiseTooMuch) {
  for (uint32_t receives = 0; receives <= 40000; ++receives) {
    const uint8_t code = credit_code(receives);
    ASSERT_LE(code, 30);
    ASSERT_LE(credits_of(code), receives);
    if (code < 30) {
      ASSERT_GT(credits_of(static_cast<uint8_t>(code + 1)), receives);
    }
  }
}

TEST(AethCodes, RnrTimersAreThoseOfTable46) {
  EXPECT_EQ(rnr_delay(0), Nanos(655'360'000));
  EXPECT_EQ(rnr_delay(1), Nanos(10'000));
  EXPECT_EQ(rnr_delay(12), Nanos(640'000));
  EXPECT_EQ(rnr_delay(31), Nanos(491'520'000));
}

TEST(AethCodes, AckTimeoutDoublesPerCodeAndZeroIsNever) {
  EXPECT_EQ(ack_timeout(0), kNever);
  EXPECT_EQ(ack_timeout(1), Nanos(8192));
  EXPECT_EQ(ack_timeout(14), Nanos(67'108'864));
  EXPECT_EQ(ack_timeout(31), Nanos(int64_t{4096} << 31));
}

}  // namespace
}  // namespace uroce::transport
