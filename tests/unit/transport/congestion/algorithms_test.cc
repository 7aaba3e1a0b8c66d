#include "transport/congestion/algorithms.h"

#include <gtest/gtest.h>

#include "transport/congestion/dcqcn.h"
#include "transport/congestion/swift.h"

namespace uroce::transport {
namespace {

TEST(CongestionAlgorithms, AreMadeByName) {
  CongestionSettings settings;
  const auto make = [&](CongestionAlgorithm algorithm) {
    return make_congestion_control(algorithm, settings, 1100, 64, Nanos(0));
  };
  EXPECT_EQ(make(CongestionAlgorithm::none), nullptr);
  EXPECT_EQ(make(CongestionAlgorithm::device_default), nullptr);
  settings.algorithm = CongestionAlgorithm::swift;
  EXPECT_NE(dynamic_cast<Swift*>(make(CongestionAlgorithm::device_default).get()), nullptr);
  EXPECT_NE(dynamic_cast<Dcqcn*>(make(CongestionAlgorithm::dcqcn).get()), nullptr);
  EXPECT_EQ(make(CongestionAlgorithm::none), nullptr);
}

}  // namespace
}  // namespace uroce::transport
