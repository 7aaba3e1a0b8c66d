#include "control/object_registry.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "transport/qp/qp.h"

namespace uroce::control {
namespace {

constexpr uint32_t kMaxQp = 3;
constexpr uint32_t kMaxMr = 4;

class ObjectRegistryTest : public testing::Test {
 protected:
  ObjectRegistryTest() {
    for (uint32_t engine = 0; engine < 2; ++engine) {
      registry_.qp_numbers().add_engine(QpnAllocator(engine, 1, 4, engine + 1));
    }
  }
  ObjectRegistry registry_{"uroce0", {.max_qp = kMaxQp, .max_mr = kMaxMr}, 1};
};

template <class T>
void expect_full(const Result<T>& result, const char* limit) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ENOMEM);
  EXPECT_NE(result.error().text.find("uroce0"), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find(limit), std::string::npos) << result.error().text;
}

TEST_F(ObjectRegistryTest, QueuePairsAreCountedOverAllEngines) {
  QpNumbers& numbers = registry_.qp_numbers();
  const auto first = numbers.take(0);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(*first & 1, 0u) << "the low bit names the engine";
  ASSERT_TRUE(numbers.take(1).has_value());
  ASSERT_TRUE(numbers.take(1).has_value());
  expect_full(numbers.take(0), "max_qp");
  numbers.give_back(0, *first);
  EXPECT_TRUE(numbers.take(0).has_value());
}

TEST_F(ObjectRegistryTest, Qp1IsOneAndCountsBesideTheOthers) {
  QpNumbers& numbers = registry_.qp_numbers();
  for (uint32_t i = 0; i < kMaxQp; ++i) ASSERT_TRUE(numbers.take(0).has_value());
  ASSERT_EQ(*numbers.take_gsi(), transport::kGsiQpn);
  EXPECT_EQ(numbers.take_gsi().error().code, EBUSY);
  numbers.give_back(1, transport::kGsiQpn);
  EXPECT_TRUE(numbers.take_gsi().has_value());
  expect_full(numbers.take(0), "max_qp");
}

TEST_F(ObjectRegistryTest, RegionsAndWindowsShareOneLimit) {
  KeyRegistry& keys = registry_.keys();
  std::byte memory[64] = {};
  const memory::RegionSpec spec{.pd = 1, .address = 0, .length = 64, .host = memory, .access = Access::local_write};
  for (uint32_t i = 0; i < kMaxMr / 2; ++i) {
    ASSERT_TRUE(keys.add(spec).has_value());
    ASSERT_TRUE(keys.add_window(1, WindowType::type1).has_value());
  }
  expect_full(keys.add(spec), "max_mr");
  expect_full(keys.add_window(1, WindowType::type2), "max_mr");
}

TEST_F(ObjectRegistryTest, NumbersOfQueuesComeBack) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < kMaxSrq; ++i) ids.push_back(*registry_.take_srq());
  expect_full(registry_.take_srq(), "max_srq");
  registry_.give_back_srq(ids[7]);
  EXPECT_EQ(*registry_.take_srq(), ids[7]);
  for (uint32_t i = 0; i < kMaxCq; ++i) ASSERT_TRUE(registry_.take_cq().has_value());
  expect_full(registry_.take_cq(), "max_cq");
  registry_.give_back_cq(9);
  EXPECT_EQ(*registry_.take_cq(), 9u);
}

TEST_F(ObjectRegistryTest, SessionsAreLimitedAndTheirNumbersAreNotUsedAgain) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < kMaxSessions; ++i) last = *registry_.take_session();
  EXPECT_FALSE(registry_.take_session().has_value());
  registry_.give_back_session();
  EXPECT_EQ(*registry_.take_session(), last + 1);
}

TEST_F(ObjectRegistryTest, NumbersOfSessionsBeginAgainWithoutThoseInUse) {
  const uint32_t first = *registry_.take_session();
  const uint32_t second = *registry_.take_session();
  registry_.session_numbers().give_back(second);
  registry_.session_numbers().go_on_with(UINT32_MAX);
  EXPECT_EQ(*registry_.take_session(), UINT32_MAX);
  EXPECT_EQ(*registry_.take_session(), second) << "0 is never a number, and " << first << " is in use";
}

TEST_F(ObjectRegistryTest, EnginesGetObjectsInTurn) {
  EXPECT_EQ(registry_.choose_engine(3), 0u);
  EXPECT_EQ(registry_.choose_engine(3), 1u);
  EXPECT_EQ(registry_.choose_engine(3), 2u);
  EXPECT_EQ(registry_.choose_engine(3), 0u);
}

TEST_F(ObjectRegistryTest, ReportsTheFirstAndTheLastUserOfAGroup) {
  MulticastUsers& users = registry_.multicast_users();
  const Gid group = Gid::from_ipv4(0xe0000001);
  EXPECT_TRUE(users.add(group));
  EXPECT_FALSE(users.add(group));
  EXPECT_FALSE(users.remove(group));
  EXPECT_TRUE(users.remove(group));
  EXPECT_FALSE(users.remove(group)) << "nobody was left";
  EXPECT_TRUE(users.add(group));
}

}  // namespace
}  // namespace uroce::control
