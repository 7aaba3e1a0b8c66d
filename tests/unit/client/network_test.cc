// Queue pairs and address handles while the network changes around them: neighbours' Ethernet addresses, and the
// device's own addresses.
#include <cerrno>

#include "endpoints.h"

namespace uroce {
namespace {

using test::must;
using test::next;
using test::Side;

constexpr uint32_t kNetworkQkey = 0x11111111;
const EthAddr kMoved{{2, 0, 0, 0, 0, 0x77}};
const Gid kNew = Gid::from_ipv4(0x0a000101);

class NetworkTest : public testing::TestWithParam<uint32_t> {
 protected:
  NetworkTest() {
    // Without HELLOs between, the last frame is the write's.
    world_.add({.engines = GetParam(), .settings = {.retransmission = Retransmission::go_back_n}});
    world_.add({.engines = GetParam(), .settings = {.retransmission = Retransmission::go_back_n}});
    a_.emplace(world_.device(0));
    b_.emplace(world_.device(1));
  }
  control::Device& device() { return *world_.device(0); }
  static Gid gid(std::size_t n) { return test::World::gid(n); }
  static transport::NextHop to(const Gid& gid, const EthAddr& mac) {
    return [=](const Gid& dgid) { return dgid == gid ? std::optional(mac) : std::nullopt; };
  }
  void poll() {
    for (int i = 0; i < 20; ++i) world_.poll();
  }

  test::World world_;
  std::optional<Side> a_, b_;
};

TEST_P(NetworkTest, ConnectedQueuePairsFollowANeighbour) {
  auto qa = a_->make_qp({}), qb = b_->make_qp({});
  connect(*a_, qa, *b_, qb);
  const auto write = [&] {
    return qa.post_send({.opcode = WrOpcode::rdma_write,
                         .flags = SendFlag::signaled,
                         .sges = std::array{a_->mr.sge(0, 10)},
                         .remote_addr = b_->mr.sge(0, 0).addr,
                         .rkey = b_->mr.rkey()});
  };
  ASSERT_TRUE(device().redirect(to(gid(7), kMoved)));  // another neighbour
  ASSERT_EQ(write(), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  EXPECT_EQ(world_.port().last_destination, world_.device(1)->config().mac);

  ASSERT_TRUE(device().redirect(to(gid(1), kMoved)));
  poll();
  ASSERT_EQ(write(), 0);
  poll();
  EXPECT_EQ(world_.port().last_destination, kMoved);
  ASSERT_TRUE(device().redirect(to(gid(1), world_.device(1)->config().mac)));
  ASSERT_EQ(write(), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success) << "what was lost meanwhile is sent again";
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
}

TEST_P(NetworkTest, AddressHandlesFollowANeighbour) {
  auto qa = a_->make_qp({.type = QpType::ud});
  must(qa.start(kNetworkQkey));
  const auto handle = must(a_->pd.create_address_handle({.dgid = gid(1)}));
  const auto send = [&] {
    ASSERT_EQ(qa.post_send({.flags = SendFlag::signaled,
                            .sges = std::array{a_->mr.sge(0, 10)},
                            .ah = handle.id(),
                            .remote_qpn = 99,
                            .remote_qkey = kNetworkQkey}),
              0);
    EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  };
  send();
  EXPECT_EQ(world_.port().last_destination, world_.device(1)->config().mac);
  ASSERT_TRUE(device().redirect(to(gid(1), kMoved)));
  send();
  EXPECT_EQ(world_.port().last_destination, kMoved);
}

// Two replies arrived before the address was in use.
TEST_P(NetworkTest, WhatChangedWhileItWasAskedForIsLookedUpAgain) {
  world_.port().moved[gid(1)] = kMoved;
  auto qa = a_->make_qp({}), qb = b_->make_qp({});
  connect(*a_, qa, *b_, qb);
  ASSERT_EQ(qa.post_send({.sges = std::array{a_->mr.sge(0, 10)}}), 0);
  poll();
  EXPECT_EQ(world_.port().last_destination, kMoved);
}

TEST_P(NetworkTest, AddressesChangeAndTheirPlacesStay) {
  const auto before = must(a_->context.gids());
  ASSERT_EQ(before.size(), 2u);
  must(device().set_gids(before));
  EXPECT_FALSE(a_->context.next_async_event(std::chrono::nanoseconds(0))) << "nothing changed";

  must(device().set_gids(std::vector{kNew, before[1]}));
  const auto event = a_->context.next_async_event(std::chrono::seconds(20));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, AsyncEventType::gid_change);
  EXPECT_EQ(must(a_->context.gids()), (std::vector{Gid{}, before[1], kNew}));
  must(device().set_gids(std::vector{before[1], kNew, before[0]}));
  EXPECT_EQ(must(a_->context.gids()), (std::vector{before[0], before[1], kNew})) << "back in its place";
  for (uint32_t i = 0; i < 300; ++i) must(device().set_gids(std::vector{Gid::from_ipv4(0x0a010000 + i)}));
  EXPECT_EQ(must(a_->context.gids()).size(), 16u) << "places are used again";
}

TEST_P(NetworkTest, AddressesMayAllGoAndComeBackWithoutWaiting) {
  const auto hears_of_gid_change = [&] {
    const auto event = a_->context.next_async_event(std::chrono::seconds(20));
    return event && event->type == AsyncEventType::gid_change;
  };
  const auto before = must(a_->context.gids());
  must(device().set_gids({}));
  EXPECT_EQ(must(a_->context.gids()), std::vector<Gid>(before.size()));
  EXPECT_TRUE(hears_of_gid_change());
  while (!device().try_set_gids(before)) poll();
  EXPECT_EQ(must(a_->context.gids()), before);
  EXPECT_TRUE(hears_of_gid_change());
  EXPECT_TRUE(device().try_set_gids(before));
  EXPECT_FALSE(a_->context.next_async_event(std::chrono::nanoseconds(0))) << "nothing changed";
  auto qa = a_->make_qp({}), qb = b_->make_qp({});
  connect(*a_, qa, *b_, qb);
}

TEST_P(NetworkTest, AddressesThatAreLeftOutComeBack) {
  const auto before = must(a_->context.gids());
  must(device().leave_out_gids([&](const Gid& gid) { return gid == before[0]; }));
  EXPECT_EQ(must(a_->context.gids()), (std::vector{Gid{}, before[1]}));
  test::expect_error(a_->make_qp({}).connect({gid(1), 99, 0}, {}), EINVAL, "is empty");
  must(device().set_gids(std::vector{before[1], before[0], kNew}));
  EXPECT_EQ(must(a_->context.gids()), (std::vector{Gid{}, before[1], kNew})) << "the port has it again";
  must(device().leave_out_gids(nullptr));
  EXPECT_EQ(must(a_->context.gids()), (std::vector{before[0], before[1], kNew}));
  for (int i = 0; i < 3; ++i) {
    const auto event = a_->context.next_async_event(std::chrono::seconds(20));
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, AsyncEventType::gid_change);
  }
}

TEST_P(NetworkTest, SaysWhatIsWrongWithAddresses) {
  test::expect_error(device().set_gids(std::vector(257, kNew)), EINVAL, "at most 256");
  test::expect_error(device().set_gids(std::vector(1, Gid{})), EINVAL, "zero");
  const auto before = must(a_->context.gids());
  must(device().set_gids(std::vector{before[1]}));
  test::expect_error(a_->pd.create_address_handle({.dgid = gid(1)}), EINVAL, "is empty");
  auto qa = a_->make_qp({});
  test::expect_error(qa.connect({gid(1), 99, 0}, {}), EINVAL, "is empty");
}

TEST_P(NetworkTest, WhatHasAnAddressThatWentKeepsIt) {
  auto qa = a_->make_qp({}), qb = b_->make_qp({});
  connect(*a_, qa, *b_, qb);
  auto da = a_->make_qp({.type = QpType::ud}), db = b_->make_qp({.type = QpType::ud});
  must(da.start(kNetworkQkey));
  must(db.start(kNetworkQkey));
  const auto there = must(a_->pd.create_address_handle({.dgid = gid(1)}));
  const auto back = must(b_->pd.create_address_handle({.dgid = gid(0)}));
  must(device().set_gids(std::vector{kNew}));
  ASSERT_EQ(qb.post_recv({.sges = std::array{b_->mr.sge(0, 100)}}), 0);
  ASSERT_EQ(qa.post_send({.flags = SendFlag::signaled, .sges = std::array{a_->mr.sge(0, 10)}}), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::success);

  const auto datagram = [](Side& side, QueuePair& qp, const AddressHandle& handle, uint32_t qpn) {
    ASSERT_EQ(qp.post_send({.sges = std::array{side.mr.sge(0, 10)},
                            .ah = handle.id(),
                            .remote_qpn = qpn,
                            .remote_qkey = kNetworkQkey}),
              0);
  };
  ASSERT_EQ(db.post_recv({.sges = std::array{b_->mr.sge(0, 100)}}), 0);
  datagram(*a_, da, there, db.qpn());
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::success);
  // No datagram is sent to the old address; all go to the new one.
  ASSERT_EQ(da.post_recv({.sges = std::array{a_->mr.sge(0, 100)}}), 0);
  datagram(*b_, db, back, da.qpn());
  poll();
  Completion none;
  EXPECT_EQ(a_->cq.poll({&none, 1}), 0u);
  const auto to_new = must(b_->pd.create_address_handle({.dgid = kNew}));
  datagram(*b_, db, to_new, da.qpn());
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
}

INSTANTIATE_TEST_SUITE_P(Engines, NetworkTest, testing::Values(1u, 3u));

}  // namespace
}  // namespace uroce
