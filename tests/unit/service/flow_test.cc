// Receive rules of programs: clients of a server in this process.
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <gtest/gtest.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/server_place.h"

namespace uroce::service {
namespace {

using test::expect_error;
using test::must;
using test::next;
using test::Side;
using test::World;

class FlowServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "raw packets need a privilege";
    world_.add({.engines = 3});
    server_ =
        must(Server::start({.socket = socket_, .budgets = {}}, {world_.device(0)}, [](Severity, std::string_view) {}));
    side_.emplace(must(open_daemon_device(world_.device(0)->config().name, {socket_})));
  }
  ~FlowServerTest() override {
    side_.reset();
    server_.reset();
    world_.stop();
  }
  /// IPv4 from 10.0.0.`host` to this device.
  void write_frame(uint8_t host) {
    std::memset(side_->memory.data(), 0, 60);
    std::memcpy(side_->memory.data(), side_->context.info().mac.bytes.data(), 6);
    side_->memory[12] = std::byte{8};
    side_->memory[14] = std::byte{0x45};
    side_->memory[29] = std::byte{host};
  }

  ServerPlace place_{"flow"};
  const std::string socket_ = place_.socket();
  World world_{World::Mode::threaded};
  std::unique_ptr<Server> server_;
  std::optional<Side> side_;
};

TEST_F(FlowServerTest, ATableSpreadsFramesAndItsRuleCountsThem) {
  auto sender = side_->make_raw_qp(), first = side_->make_raw_qp(), second = side_->make_raw_qp();
  RxHash hash{.fields = RxHashField::ipv4_source};
  hash.key[7] = 0x02;  // the last bit of the address is that of the hash
  const QueuePair* const table[] = {&first, &second};
  const auto rule = must(side_->context.create_flow(table, {.type = FlowType::all_default}, hash));
  for (uint8_t host = 0; host < 4; ++host) {
    QueuePair& receiver = host % 2 == 0 ? first : second;
    ASSERT_EQ(receiver.post_recv({.wr_id = host, .sges = std::array{side_->mr.sge(4096, 2000)}}), 0);
    write_frame(host);
    ASSERT_EQ(sender.post_send({.sges = std::array{side_->mr.sge(0, 60)}}), 0);
    const auto received = next(world_, side_->cq);
    EXPECT_EQ(received.qpn, receiver.qpn());
    EXPECT_EQ(received.wr_id, host);
  }
  const FlowCounters counted = must(rule.counters());
  EXPECT_EQ(counted.packets, 4u);
  EXPECT_EQ(counted.bytes, 240u);
}

TEST_F(FlowServerTest, WrongTablesAreRefused) {
  auto raw = side_->make_raw_qp();
  auto datagrams = side_->make_qp({.type = QpType::ud});
  const auto create = [this](const std::vector<const QueuePair*>& table, const RxHash& hash = {}) {
    return side_->context.create_flow(table, {}, hash);
  };
  expect_error(create({&raw, &raw, &raw}), EINVAL, "power of two");
  expect_error(create({&raw, &datagrams}), EINVAL, "not a raw packet queue pair");
  expect_error(create({&raw}, {.fields = RxHashFields::from_bits(0x100)}), EINVAL, "0x100");
  Side other(must(open_daemon_device(world_.device(0)->config().name, {place_.another_program()})));  // another program
  auto theirs = other.make_raw_qp();
  expect_error(create({&raw, &theirs}), EINVAL, "another context");
  EXPECT_TRUE(create(std::vector<const QueuePair*>(256, &raw)));
}

}  // namespace
}  // namespace uroce::service
