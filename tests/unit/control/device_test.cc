#include "control/device.h"
#include "control/cq.h"
#include "control/cq_channel.h"

#include <cerrno>
#include <map>

#include <gtest/gtest.h>

#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::World;

TEST(Device, RefusesSettingsOutOfRangeByName) {
  World world;
  test::Port host(world);
  DeviceConfig good;
  good.name = "uroce9";
  good.gids = {World::gid(0)};
  ASSERT_TRUE(Device::create(good, host).has_value());
  const auto refused = [&](const DeviceConfig& config, const std::string& word) {
    const auto device = Device::create(config, host);
    ASSERT_FALSE(device.has_value()) << word;
    EXPECT_EQ(device.error().code, EINVAL);
    EXPECT_NE(device.error().text.find(word), std::string::npos) << device.error().text;
    EXPECT_NE(device.error().text.find("uroce9"), std::string::npos) << device.error().text;
  };
  auto with = [&good](auto DeviceConfig::* member, auto value) {
    DeviceConfig config = good;
    config.*member = value;
    return config;
  };
  auto setting = [&good](auto EngineSettings::* member, auto value) {
    DeviceConfig config = good;
    config.settings.*member = value;
    return config;
  };
  refused(with(&DeviceConfig::engines, 0u), "engines is 0");
  refused(with(&DeviceConfig::engines, 65u), "engines is 65");
  refused(setting(&EngineSettings::max_qp, 0u), "max_qp");
  refused(setting(&EngineSettings::max_qp, (1u << 18) + 1), "max_qp");
  refused(setting(&EngineSettings::max_mr, (1u << 20) + 1), "max_mr");
  refused(with(&DeviceConfig::vlan, 4095), "VLAN");
  refused(setting(&EngineSettings::udp_source_ports, 0u), "udp_source_ports is 0");
  refused(setting(&EngineSettings::parking_frames, 65537u), "parking_frames is 65537");
  refused(setting(&EngineSettings::retransmission, Retransmission::device_default), "\"go-back-n\"");
  CongestionSettings bad;
  bad.algorithm = CongestionAlgorithm::device_default;
  refused(setting(&EngineSettings::congestion, bad),
          "congestion_control is \"device\"; it must be \"none\", \"dcqcn\" or \"swift\"");
  bad = {.dcqcn = {.gain = 2}};
  refused(setting(&EngineSettings::congestion, bad), "dcqcn.gain is 2; it must be 0.0001 to 1");
  bad = {.swift = {.max_decrease = 1}};
  refused(setting(&EngineSettings::congestion, bad), "swift.max_decrease is 1");
  refused(with(&DeviceConfig::gids, std::vector<Gid>(257, World::gid(0))), "GID");
  EXPECT_TRUE(Device::create(with(&DeviceConfig::gids, std::vector<Gid>{}), host)) << "addresses may come later";
}

TEST(Device, EveryEngineCountHasItsIndexBits) {
  World world;
  const std::map<uint32_t, uint32_t> bits = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {64, 6}};
  for (const auto& [engines, expected] : bits) {
    const Device& device = world.add({.engines = engines, .settings = {.max_qp = 64, .max_mr = 64}});
    EXPECT_EQ(device.index_bits(), expected) << engines;
  }
}

TEST(Device, InfoHasAttributesAndLimits) {
  World world;
  world.add({.name = "uroce3",
             .driver = "net_ring",
             .max_path_mtu = Mtu::mtu4096,
             .engines = 2,
             .settings = {.max_qp = 100}});
  const DeviceInfo info = world.device()->info();
  EXPECT_EQ(info.name, "uroce3");
  EXPECT_EQ(info.driver, "net_ring");
  EXPECT_EQ(info.gids.size(), 2u);
  EXPECT_EQ(info.active_mtu, Mtu::mtu4096);
  EXPECT_EQ(info.engines, 2u);
  EXPECT_EQ(info.max_qp, 100u);
  EXPECT_GE(info.max_cqe, 32767u);
  EXPECT_TRUE(info.link_up);
  world.port().link = false;
  EXPECT_FALSE(world.device()->info().link_up);
}

TEST(Device, CountersComeByNameAndCountDrops) {
  World world;
  Device& device = world.add({.engines = 2});
  std::map<std::string, uint64_t> before;
  for (const auto& [name, value] : device.counters()) EXPECT_TRUE(before.emplace(name, value).second) << name;
  EXPECT_EQ(before.at("rx_packets"), 0u);
  EXPECT_EQ(before.at("drop_icrc"), 0u);
  EXPECT_EQ(before.at("drop_truncated"), 0u);
  EXPECT_FALSE(before.contains("drop_none"));
  const std::byte junk[20] = {};
  const transport::RxFrame frame{junk};
  device.engine(0).on_frames({&frame, 1}, Nanos(1));
  device.engine(1).on_frames({&frame, 1}, Nanos(1));
  std::map<std::string, uint64_t> after;
  for (const auto& [name, value] : device.counters()) after.emplace(name, value);
  EXPECT_EQ(after.at("rx_packets"), 2u);
  EXPECT_EQ(after.at("drop_truncated") + after.at("drop_not_roce"), 2u);
}

TEST(Device, SessionsAreLimitedAndComeBack) {
  World world;
  world.add({.settings = {.max_qp = 4}});
  std::vector<std::shared_ptr<DeviceSession>> sessions;
  for (uint32_t i = 0; i < kMaxSessions; ++i) sessions.push_back(*DeviceSession::open(world.device()));
  const auto refused = DeviceSession::open(world.device());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ENOMEM);
  sessions.pop_back();
  EXPECT_TRUE(DeviceSession::open(world.device()).has_value());
}

TEST(Device, LinkChangesReachEverySession) {
  World world;
  Device& device = world.add();
  const auto a = *DeviceSession::open(world.device());
  const auto b = *DeviceSession::open(world.device());
  device.report_link(false);
  EXPECT_EQ(a->events().pop()->type, AsyncEventType::port_error);
  EXPECT_EQ(b->events().pop()->type, AsyncEventType::port_error);
  device.report_link(true);
  EXPECT_EQ(a->events().pop()->type, AsyncEventType::port_active);
}

TEST(Device, OpenFailsCleanlyWhereTheEngineIsDead) {
  World world;
  world.add({.engine_timeout = std::chrono::milliseconds(20)});
  world.port().frozen = true;
  const auto session = DeviceSession::open(world.device());
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ETIMEDOUT);
  EXPECT_NE(session.error().text.find("engine 0 of uroce0"), std::string::npos) << session.error().text;
  world.port().frozen = false;
  EXPECT_TRUE(DeviceSession::open(world.device()).has_value());
}

TEST(Device, AfterShutDownCallsFailAndObjectsCanStillGo) {
  World world;
  world.add();
  auto session = *DeviceSession::open(world.device());
  auto pd = *session->create_pd();
  std::byte bytes[64];
  auto region = *session->register_memory(pd, 0, sizeof bytes, bytes, Access::local_write);
  auto channel = *session->create_channel();
  auto cq = *session->create_cq(16, channel);
  auto srq = *session->create_srq(pd, 16, 1);
  auto qp = *session->create_qp(pd, cq, cq, {}, nullptr);
  world.stop();

  EXPECT_EQ(session->create_pd().error().code, ENODEV);
  EXPECT_EQ(session->create_cq(16, nullptr).error().code, ENODEV);
  EXPECT_EQ(session->create_srq(pd, 16, 1).error().code, ENODEV);
  EXPECT_EQ(session->create_qp(pd, cq, cq, {}, nullptr).error().code, ENODEV);
  EXPECT_EQ(session->register_memory(pd, 0, sizeof bytes, bytes, Access::local_write).error().code, ENODEV);
  EXPECT_EQ(qp->query().error().code, ENODEV);
  EXPECT_EQ(qp->modify({.state = QpState::error}, QpAttrBit::state).error().code, ENODEV);
  EXPECT_EQ(DeviceSession::open(world.device()).error().code, ENODEV);
  EXPECT_FALSE(world.device()->wait_readable(channel->fd(), std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace uroce::control
