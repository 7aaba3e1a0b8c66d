#include "transport/loss/ack_timeout.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(AckTimeout, DoublesPerCodeAndZeroIsNever) {
  EXPECT_EQ(ack_timeout(0), kNever);
  EXPECT_EQ(ack_timeout(1), Nanos(8192));
  EXPECT_EQ(ack_timeout(14), Nanos(67'108'864));
  EXPECT_EQ(ack_timeout(31), Nanos(int64_t{4096} << 31));
}

}  // namespace
}  // namespace uroce::transport
