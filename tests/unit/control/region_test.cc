#include "control/region.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "control/device_session.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::World;
using namespace std::chrono_literals;

class RegionTest : public testing::Test {
 protected:
  void start(std::chrono::nanoseconds timeout = kEngineTimeout) {
    world_.add({.engines = 2, .settings = {.max_mr = 8}, .engine_timeout = timeout});
    session_ = *DeviceSession::open(world_.device());
    pd_ = *session_->create_pd();
  }
  Result<std::shared_ptr<Region>> add(AccessFlags access = Access::local_write) {
    return session_->register_memory(pd_, reinterpret_cast<uint64_t>(bytes_), sizeof bytes_, bytes_, access);
  }

  World world_;
  std::shared_ptr<DeviceSession> session_;
  std::shared_ptr<Pd> pd_;
  std::byte bytes_[64] = {};
};

TEST_F(RegionTest, RegistersAndRefuses) {
  start();
  const auto region = *add();
  EXPECT_NE(region->key(), 0u);
  EXPECT_EQ(region->spec().host, bytes_);
  EXPECT_EQ(add(Access::remote_write).error().code, EINVAL);
  EXPECT_TRUE(session_->register_memory(pd_, 0, 0, bytes_, {}).has_value()) << "messages of 0 bytes use such regions";
  EXPECT_EQ(session_->register_memory(pd_, ~0ull - 10, 64, bytes_, {}).error().code, EINVAL);
}

// 22 hours of creating domains wrapped their numbers; then a region answered to another user's domain.
TEST_F(RegionTest, ADomainsNumberIsTakenWhileARegionBelongsToIt) {
  start();
  const auto region = *add();
  const memory::PdId number = pd_->id();
  const auto other = *session_->create_pd();
  pd_.reset();
  NumberPool& numbers = world_.device()->objects().pds();
  numbers.go_on_with(UINT32_MAX);
  EXPECT_EQ((*session_->create_pd())->id(), UINT32_MAX);
  numbers.go_on_with(number);
  const auto next = *session_->create_pd();
  EXPECT_NE(next->id(), number);
  EXPECT_NE(next->id(), other->id());
  const auto& table = world_.device()->objects().keys().table();
  const auto reached = [&](memory::PdId pd) {
    return table.translate(region->key(), pd, reinterpret_cast<uint64_t>(bytes_), 8, {}).result;
  };
  EXPECT_EQ(reached(number), memory::AccessResult::ok);
  EXPECT_EQ(reached(next->id()), memory::AccessResult::wrong_domain);
}

TEST_F(RegionTest, ADomainsNumberComesBackWhenNothingBelongsToIt) {
  start();
  auto region = *add();
  const memory::PdId number = pd_->id();
  pd_.reset();
  region.reset();
  world_.device()->objects().pds().go_on_with(number);
  EXPECT_EQ((*session_->create_pd())->id(), number);
}

TEST_F(RegionTest, KeysDoNotComeBackSoon) {
  start();
  std::set<uint32_t> keys;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(keys.insert((*add())->key()).second);
}

TEST_F(RegionTest, GoingWaitsForThePayloadOnItsWay) {
  start(10s);
  auto region = *add();
  world_.port().references_payload = true;
  std::atomic<bool> gone{false};
  // Only this thread releases the payload, and only later.
  std::thread other([&] {
    region.reset();
    gone = true;
  });
  for (int i = 0; i < 1000; ++i) world_.poll();
  EXPECT_FALSE(gone);
  EXPECT_TRUE(session_->create_pd().has_value());  // other calls do not wait
  world_.port().references_payload = false;
  other.join();
  EXPECT_TRUE(gone);
}

TEST_F(RegionTest, ASlotIsNotUsedAgainBeforeTheEnginesLetGo) {
  start(10ms);
  std::vector<std::shared_ptr<Region>> regions;
  for (int i = 0; i < 8; ++i) regions.push_back(*add());
  world_.port().frozen = true;
  regions.pop_back();  // gives up after 10 ms
  world_.port().frozen = false;
  const auto refused = add();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ENOMEM);
  regions.pop_back();  // the engines reply again: both slots are released
  EXPECT_TRUE((regions.push_back(*add()), true));
  EXPECT_TRUE(add().has_value());
}

}  // namespace
}  // namespace uroce::control
