// The operator's lists of objects: every kind, with what it says of them.
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "client/daemon_link.h"
#include "message/operator_messages.h"
#include "net/address.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/server_place.h"

namespace uroce::service {
namespace {

using test::must;
using test::next;
using test::Side;
using test::World;

class ObjectRowsTest : public testing::Test {
 protected:
  ObjectRowsTest() {
    world_.add();
    world_.add();
    server_ = must(Server::start({.socket = place_.socket()}, {world_.device(0), world_.device(1)}, {}));
    side_.emplace(must(open_daemon_device(world_.device(0)->config().name, {place_.another_program()})));
  }
  ~ObjectRowsTest() override {
    side_.reset();
    server_.reset();
    world_.stop();
  }

  using Row = std::map<std::string, std::string>;
  std::vector<Row> rows(message::Kind kind) {
    auto link = must(client::DaemonLink::open({.socket = place_.another_program()}));
    std::vector<Row> out;
    for (auto& row :
         must(link->call<message::ObjectRows>(message::Op::list_objects, message::ListObjects{kind})).rows) {
      out.emplace_back(row.values.begin(), row.values.end());
    }
    return out;
  }
  /// The only one.
  Row row(message::Kind kind) {
    const auto all = rows(kind);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Row{} : all[0];
  }

  ServerPlace place_{"rows"};
  World world_{World::Mode::threaded};
  std::unique_ptr<Server> server_;
  std::optional<Side> side_;
};

TEST_F(ObjectRowsTest, ProtectionDomainsAndWhatBelongsToThem) {
  const auto queue = must(side_->context.create_srq(side_->pd, 16, 1));
  const auto window = must(side_->pd.create_memory_window(WindowType::type2));
  const auto handle = must(side_->pd.create_address_handle({.dgid = World::gid(1)}));
  Row pd = row(message::Kind::pd);
  EXPECT_EQ(pd["users"], "4");
  Row region = row(message::Kind::mr);
  EXPECT_EQ(region["pd"], pd["pd"]);
  EXPECT_EQ(region["address"], fmt::format("{:#x}", reinterpret_cast<uint64_t>(side_->memory.data())));
  EXPECT_EQ(region["length"], std::to_string(Side::kBytes));
  Row bound = row(message::Kind::window);
  EXPECT_EQ(bound["pd"], pd["pd"]);
  EXPECT_EQ(bound["type"], "2");
  EXPECT_EQ(row(message::Kind::srq)["pd"], pd["pd"]);
  Row destination = row(message::Kind::address_handle);
  EXPECT_EQ(destination["pd"], pd["pd"]);
  EXPECT_EQ(destination["remote"], net::to_text(World::gid(1)));
  EXPECT_NE(destination["mac"], "");
}

TEST_F(ObjectRowsTest, QueuesAndHowFullTheyAre) {
  Side peer(must(open_daemon_device(world_.device(1)->config().name, {place_.another_program()})));
  auto queue = must(side_->context.create_srq(side_->pd, 16, 1));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.post_recv({.sges = std::array{side_->mr.sge(0, 64)}}), 0);
  EXPECT_EQ(row(message::Kind::srq)["posted"], "3");
  EXPECT_EQ(row(message::Kind::srq)["entries"], "16");
  auto qp = side_->make_qp(), other = peer.make_qp();
  test::connect(*side_, qp, peer, other);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(qp.post_recv({.sges = std::array{side_->mr.sge(0, 64)}}), 0);
  ASSERT_EQ(
      other.post_send({.opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = std::array{peer.mr.sge(0, 8)}}),
      0);
  next(world_, peer.cq);
  Row seen;
  for (Row& one : rows(message::Kind::qp)) {
    if (one["qpn"] == fmt::format("{:#08x}", qp.qpn())) seen = one;
  }
  EXPECT_EQ(seen["recvs_posted"], "4");
  EXPECT_EQ(seen["sends_posted"], "0");
  EXPECT_EQ(seen["in_flight"], "0");
  EXPECT_EQ(seen["timer_us"], "");
  const auto cqs = rows(message::Kind::cq);
  ASSERT_EQ(cqs.size(), 2u);
  std::multiset<std::string> unread;
  for (Row one : cqs) unread.insert(one["unread"]);
  EXPECT_EQ(unread, (std::multiset<std::string>{"0", "1"})) << "the receive was not polled";
}

// A request to a peer that is not there.
TEST_F(ObjectRowsTest, WorkAndRetriesOfAQueuePair) {
  Side peer(must(open_daemon_device(world_.device(1)->config().name, {place_.another_program()})));
  auto qp = side_->make_qp(), other = peer.make_qp();
  QueuePair::ConnectOptions options{.timeout = 20, .retry_cnt = 5};
  must(qp.connect(peer.peer(other, 5), options));
  ASSERT_EQ(qp.post_send({.opcode = WrOpcode::send, .sges = std::array{side_->mr.sge(0, 8)}}), 0);
  const auto is_sent = [&] {
    for (Row& one : rows(message::Kind::qp)) {
      if (one["in_flight"] == "1") return true;
    }
    return false;
  };
  ASSERT_TRUE(world_.run_until(is_sent));
  for (Row& one : rows(message::Kind::qp)) {
    if (one["qpn"] != fmt::format("{:#08x}", qp.qpn())) continue;
    EXPECT_EQ(one["sends_posted"], "1");
    EXPECT_EQ(one["retries_left"], "5");
    EXPECT_LE(std::stoul(one["timer_us"]), 4'294'968u) << "4.096 us x 2^20";
  }
}

TEST_F(ObjectRowsTest, XrcDomainsAndReceiveRules) {
  const auto domain = must(side_->context.open_xrc_domain({}));
  EXPECT_EQ(row(message::Kind::xrc_domain)["file"], "no");
  if (geteuid() != 0) GTEST_SKIP() << "raw packets need a privilege";
  auto qp = side_->make_raw_qp();
  const auto rule = must(qp.create_flow({.type = FlowType::all_default, .priority = 3}));
  Row flow = row(message::Kind::flow);
  EXPECT_EQ(flow["priority"], "3");
  EXPECT_EQ(flow["qpn"], fmt::format("{:#08x}", qp.qpn()));
  EXPECT_EQ(flow["packets"], "0");
}

}  // namespace
}  // namespace uroce::service
