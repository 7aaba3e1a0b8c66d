// Connections in each of their states, before and after a planned restart.
#include <algorithm>

#include "tests/unit/service/cm_succession.h"

namespace uroce::service {
namespace {

TEST_F(CmSuccessionTest, AConnectionAndItsQueuePairGoOn) {
  Side a = near_side(), b = far_side();
  auto qa = a.make_qp(), qb = b.make_qp();
  CmId listener = far_->listening(far_at(4000));
  CmId active = near_->resolved(far_at(4000));
  to_init(active, qa);
  must(active.connect({.responder_resources = 3, .initiator_depth = 5, .qpn = qa.qpn()}, qa));
  CmId passive = must(far_->manager.adopt(far_->expect(CmEventType::connect_request)));
  to_init(passive, qb);
  must(passive.accept({.responder_resources = 5, .initiator_depth = 3, .qpn = qb.qpn()}, qb));
  near_->expect(CmEventType::established);
  far_->expect(CmEventType::established);
  for (int restart = 0; restart < 5; ++restart) {
    expect_hand_over();
    expect_write_arrives(a, qa, b);
    expect_write_arrives(b, qb, a);
    EXPECT_EQ(counter("cm_req_sent"), 1u) << "counters go on";
  }
  must(active.disconnect(qa));
  far_->expect(CmEventType::disconnected);
  near_->expect(CmEventType::disconnected);
  EXPECT_TRUE(passive.disconnect(qb));
  expect_hand_over();
  near_->expect(CmEventType::timewait_exit);
}

TEST_F(CmSuccessionTest, NothingGoesToASuccessorThatDoesNotKnowIt) {
  CmId listener = near_->listening(near_at(4001));
  const auto held = running().hold({.estate = 1});
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, EPROTONOSUPPORT);
  EXPECT_NE(held.error().text.find(" has rdma_cm open, which the successor cannot take over"), std::string::npos)
      << held.error().text;
  CmId active = far_->resolved(near_at(4001));
  must(active.connect({.qpn = 20}));
  EXPECT_EQ(near_->expect(CmEventType::connect_request).listener, listener.number());
}

TEST_F(CmSuccessionTest, AListenerIsConnectedToAfterwards) {
  CmId listener = near_->listening(near_at(4001));
  for (int restart = 0; restart < 5; ++restart) {
    expect_hand_over();
    CmProgram other(must(ConnectionManager::open({socket_})));
    CmId late = other.id();
    test::expect_error(late.bind(near_at(4001)), EADDRINUSE, "4001");
    CmId active = far_->resolved(near_at(4001));
    must(active.connect({.qpn = 20u + static_cast<uint32_t>(restart)}));
    const CmEvent request = near_->expect(CmEventType::connect_request);
    EXPECT_EQ(request.listener, listener.number());
    CmId passive = must(near_->manager.adopt(request));
    must(passive.accept({.qpn = 30u + static_cast<uint32_t>(restart)}));
    far_->expect(CmEventType::connect_response);
    must(active.establish());
    near_->expect(CmEventType::established);
    must(active.disconnect());
    near_->expect(CmEventType::disconnected);
    far_->expect(CmEventType::disconnected);
  }
}

TEST_F(CmSuccessionTest, EventsAreReadAfterwards) {
  CmChannel other = must(near_->manager.create_channel());
  CmId one = near_->id();
  CmId two = must(near_->manager.create_id(other, PortSpace::tcp, QpType::rc));
  CmId gone = near_->id();
  for (CmId* id : {&one, &two, &gone}) must(id->resolve_addr(std::nullopt, far_at(4002), kCmPatience));
  ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == 2; }));
  gone = near_->id();  // its event goes with it
  expect_hand_over();
  EXPECT_EQ(near_->waiting(), 1);
  EXPECT_EQ(near_->expect(CmEventType::addr_resolved).id, one.number());
  EXPECT_EQ(near_->channel.take(), std::nullopt);
  const auto event = other.wait(kCmPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, two.number());
  // Numbers of new ones are new, and old ones can be used.
  CmId more = near_->id();
  EXPECT_GT(more.number(), gone.number());
  must(two.migrate(near_->channel));
  must(two.resolve_route(kCmPatience));
  EXPECT_EQ(near_->expect(CmEventType::route_resolved).id, two.number());
}

TEST_F(CmSuccessionTest, ARequestIsAnsweredMeanwhile) {
  Side a = near_side(), b = far_side();
  auto qa = a.make_qp(), qb = b.make_qp();
  CmId listener = far_->listening(far_at(4003));
  CmId active = near_->resolved(far_at(4003));
  to_init(active, qa);
  must(active.connect({.responder_resources = 3, .initiator_depth = 5, .qpn = qa.qpn()}, qa));
  CmId passive = must(far_->manager.adopt(far_->expect(CmEventType::connect_request)));
  expect_hand_over();
  to_init(passive, qb);
  must(passive.accept({.responder_resources = 5, .initiator_depth = 3, .qpn = qb.qpn()}, qb));
  near_->expect(CmEventType::established);
  far_->expect(CmEventType::established);
  EXPECT_EQ(must(qa.query()).state, QpState::rts) << "the manager has moved it";
  expect_write_arrives(a, qa, b);
}

TEST_F(CmSuccessionTest, AnAnswerWaitsForTheProgram) {
  CmId listener = far_->listening(far_at(4004));
  CmId active = near_->resolved(far_at(4004));
  must(active.connect({.qpn = 20}));
  CmId passive = must(far_->manager.adopt(far_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == 1; }));
  expect_hand_over();
  near_->expect(CmEventType::connect_response);
  expect_hand_over();
  must(active.establish());
  far_->expect(CmEventType::established);
}

TEST_F(CmSuccessionTest, AReplyAwaitsItsRtu) {
  CmId listener = near_->listening(near_at(4005));
  CmId active = far_->resolved(near_at(4005));
  must(active.connect({.qpn = 20}));
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  far_->expect(CmEventType::connect_response);
  expect_hand_over();
  must(active.establish());
  EXPECT_EQ(near_->expect(CmEventType::established).id, passive.number());
  must(passive.disconnect());
  expect_hand_over();
  near_->expect(CmEventType::disconnected);
}

TEST_F(CmSuccessionTest, AFullBacklogStaysInItsOrder) {
  CmId listener = near_->listening(near_at(4006), 2);
  std::vector<CmId> actives;
  for (uint32_t i = 0; i < 4; ++i) {
    actives.push_back(far_->resolved(near_at(4006)));
    must(actives.back().connect({.private_data = {static_cast<std::byte>(i)}, .qpn = 20 + i}));
    const int expected = static_cast<int>(std::min(i + 1, 2u));
    ASSERT_TRUE(world_.run_until([&] { return near_->waiting() == expected; }));
  }
  ASSERT_TRUE(world_.run_until([&] { return counter("cm_backlog_full") == 2; }));
  expect_hand_over();
  EXPECT_EQ(near_->waiting(), 2);
  for (uint32_t i = 0; i < 2; ++i) {
    const CmEvent event = near_->expect(CmEventType::connect_request);
    EXPECT_EQ(event.param.private_data.at(0), static_cast<std::byte>(i));
    must(must(near_->manager.adopt(event)).reject({}));
    far_->expect(CmEventType::rejected);
  }
  // Peers repeat the other two.
  for (int i = 0; i < 2; ++i) must(must(near_->manager.adopt(near_->expect(CmEventType::connect_request))).reject({}));
}

TEST_F(CmSuccessionTest, AnAddressIsLookedUpFurther) {
  world_.port(0).unanswered = true;
  CmId id = near_->id(), impatient = near_->id();
  must(id.resolve_addr(std::nullopt, far_at(4007), kCmPatience));
  must(impatient.resolve_addr(std::nullopt, {Gid::from_ipv4(0x0a0000fe), 4007}, 1500ms));
  expect_hand_over();
  EXPECT_EQ(near_->expect(CmEventType::addr_resolved).id, id.number());
  const CmEvent error = near_->expect(CmEventType::addr_error);
  EXPECT_EQ(error.id, impatient.number());
  EXPECT_EQ(error.status, -ETIMEDOUT);
}

// The peer's Ethernet address is not known yet, so the program has not heard of its request.
TEST_F(CmSuccessionTest, AHeldRequestArrives) {
  CmId listener = near_->listening(near_at(4013));
  CmId active = far_->resolved(near_at(4013));
  world_.port(0).unanswered = true;
  must(active.connect({.qpn = 20}));
  ASSERT_TRUE(world_.run_until([&] { return counter("cm_req_received") == 1; }));
  EXPECT_EQ(near_->channel.take(), std::nullopt);
  expect_hand_over();
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  far_->expect(CmEventType::connect_response);
}

TEST_F(CmSuccessionTest, EventsOfADestroyedChannelMove) {
  auto channel = std::make_unique<CmChannel>(must(near_->manager.create_channel()));
  CmId id = must(near_->manager.create_id(*channel, PortSpace::tcp, QpType::rc));
  must(id.resolve_addr(std::nullopt, far_at(4014), kCmPatience));
  ASSERT_TRUE(channel->wait(kCmPatience));
  channel.reset();
  expect_hand_over();
  must(id.migrate(near_->channel));
  must(id.resolve_route(kCmPatience));
  EXPECT_EQ(near_->expect(CmEventType::route_resolved).id, id.number());
}

TEST_F(CmSuccessionTest, PortsAndOptionsStay) {
  CmId shared = near_->id(), other = near_->id();
  must(shared.set_reuse_address(true));
  must(other.set_reuse_address(true));
  must(shared.bind(near_at(4015)));
  must(other.bind(near_at(4015)));
  must(shared.listen(4));
  expect_hand_over();
  expect_hand_over();
  test::expect_error(other.listen(4), EADDRINUSE, "4015");
  CmId late = near_->id();
  test::expect_error(late.bind(near_at(4015)), EADDRINUSE, "4015");
}

TEST_F(CmSuccessionTest, MessagesOfTheLastMomentArrive) {
  CmId listener = near_->listening(near_at(4008));
  CmId target = far_->listening(far_at(4008));
  CmId active = near_->resolved(far_at(4008));
  CmId from_far = far_->resolved(near_at(4008));
  const auto begun = std::chrono::steady_clock::now();
  must(active.connect({.qpn = 20}));
  must(from_far.connect({.qpn = 22}));
  expect_hand_over();
  CmId passive = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(passive.accept({.qpn = 21}));
  far_->expect(CmEventType::connect_request);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
}

TEST_F(CmSuccessionTest, DatagramServices) {
  CmId listener = near_->listening(near_at(4009), 8, QpType::ud);
  CmId target = far_->listening(far_at(4009), 8, QpType::ud);
  CmId active = near_->resolved(far_at(4009), QpType::ud);
  CmId from_far = far_->resolved(near_at(4009), QpType::ud);
  must(from_far.connect({.qpn = 22}));
  CmId asked = must(near_->manager.adopt(near_->expect(CmEventType::connect_request)));
  must(active.connect({.qpn = 20}));
  const CmEvent at_far = far_->expect(CmEventType::connect_request);
  expect_hand_over();
  must(asked.accept({.qpn = 31}));
  EXPECT_EQ(far_->expect(CmEventType::established).param.qpn, 31u);
  CmId answers = must(far_->manager.adopt(at_far));
  must(answers.accept({.qpn = 32}));
  EXPECT_EQ(near_->expect(CmEventType::established).param.qpn, 32u);
}

}  // namespace
}  // namespace uroce::service
