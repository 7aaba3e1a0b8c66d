#include "base/end_request.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(EndRequest, SignalsOfOneMomentAreOneRequest) {
  EndRequest request;
  EXPECT_FALSE(request.came());
  const Nanos begin = seconds(5);
  EXPECT_EQ(request.take(begin), EndSignal::first);
  EXPECT_TRUE(request.came());
  EXPECT_EQ(request.take(begin), EndSignal::same);
  EXPECT_EQ(request.take(begin + milliseconds(999)), EndSignal::same) << "a busy machine";
  EXPECT_EQ(request.take(begin + seconds(1)), EndSignal::again);
}

TEST(EndRequest, ManySignalsDoNotPutTheEndOff) {
  EndRequest request;
  EXPECT_EQ(request.take(Nanos(0)), EndSignal::first) << "the clock may begin at 0";
  for (int i = 1; i < 10; ++i) EXPECT_EQ(request.take(milliseconds(100 * i)), EndSignal::same);
  EXPECT_EQ(request.take(milliseconds(1000)), EndSignal::again);
  EXPECT_EQ(request.take(milliseconds(1001)), EndSignal::again);
}

}  // namespace
}  // namespace uroce
