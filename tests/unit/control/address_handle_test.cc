#include "control/address_handle.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "control/device_session.h"
#include "control/region.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::expect_error;
using test::World;

class AddressHandleTest : public testing::Test {
 protected:
  AddressHandleTest() {
    world_.add({.engines = 2});
    world_.add();
    session_ = *DeviceSession::open(world_.device());
    pd_ = *session_->create_pd();
  }
  Result<std::shared_ptr<AddressHandle>> create(const AddressVector& av) {
    return session_->create_address_handle(pd_, av);
  }

  World world_;
  std::shared_ptr<DeviceSession> session_;
  std::shared_ptr<Pd> pd_;
};

TEST_F(AddressHandleTest, AsksTheNetworkForAPeerOnly) {
  const auto peer = create({.dgid = World::gid(1)});
  ASSERT_TRUE(peer) << peer.error().text;
  EXPECT_EQ(world_.port().resolves, 1);
  const auto self = create({.dgid = World::gid(0)});
  const auto group = create({.dgid = Gid::from_ipv4(0xe0000107)});
  ASSERT_TRUE(self && group);
  EXPECT_EQ(world_.port().resolves, 1) << "neither this device nor a group is asked for";
  EXPECT_NE((*peer)->id(), 0u);
  EXPECT_NE((*peer)->id(), (*self)->id());
  EXPECT_NE((*self)->id(), (*group)->id());
}

TEST_F(AddressHandleTest, AsksOnBehalfOfItsUser) {
  ASSERT_TRUE(create({.dgid = World::gid(1)}));
  EXPECT_EQ(world_.port().resolved_for, transport::Owner::kNobody);
  const auto session = *DeviceSession::open(world_.device(), nullptr, {.user = 1000});
  ASSERT_TRUE(session->create_address_handle(*session->create_pd(), {.dgid = World::gid(1)}));
  EXPECT_EQ(world_.port().resolved_for, 1000u);
}

TEST_F(AddressHandleTest, ErrorsNameTheFault) {
  expect_error(create({.dgid = World::gid(40)}), EHOSTUNREACH, "nobody answers");
  expect_error(create({}), EINVAL, "zero dgid");
  expect_error(create({.dgid = World::gid(1), .sgid_index = 2}), EINVAL, "sgid_index 2");
  expect_error(create({.dgid = World::gid(1), .sgid_index = 1}), EINVAL, "IPv6");
  expect_error(create({.dgid = World::gid(1), .flow_label = 1u << 20}), EINVAL, "flow_label");
  const auto other = *DeviceSession::open(world_.device());
  expect_error(session_->create_address_handle(*other->create_pd(), {.dgid = World::gid(1)}), EINVAL,
               "protection domain belongs");
  expect_error(session_->create_address_handle(nullptr, {.dgid = World::gid(1)}), EINVAL, "is missing");
}

TEST_F(AddressHandleTest, OnePerMessageNeverRunsOut) {
  const auto kept = create({.dgid = World::gid(1)});
  ASSERT_TRUE(kept);
  for (uint32_t i = 0; i < transport::AddressHandleTable::kCapacity + 1000; ++i) {
    const auto handle = create({.dgid = World::gid(0)});
    ASSERT_TRUE(handle) << i << ": " << handle.error().text;
  }
}

TEST_F(AddressHandleTest, FullIsAnErrorUntilOneGoes) {
  std::vector<std::shared_ptr<AddressHandle>> all;
  for (uint32_t i = 0; i < transport::AddressHandleTable::kCapacity; ++i) {
    all.push_back(create({.dgid = World::gid(0)}).value());
  }
  expect_error(create({.dgid = World::gid(0)}), ENOMEM, "65536 address handles");
  all.pop_back();
  EXPECT_TRUE(create({.dgid = World::gid(0)}));
}

TEST_F(AddressHandleTest, OutlivesItsDevicesStop) {
  auto handle = create({.dgid = World::gid(0)});
  ASSERT_TRUE(handle);
  world_.stop();
  expect_error(create({.dgid = World::gid(0)}), ENODEV, "shut down");
  handle->reset();
}

}  // namespace
}  // namespace uroce::control
