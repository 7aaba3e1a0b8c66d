#include "control/event_router.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

struct Queue : AsyncEventQueue {
  Queue() : AsyncEventQueue(std::move(*EventFd::create()), 16) {}
};

TEST(EventRouter, ReportsToTheOwnerOnly) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  Queue a, b;
  router.add(EventObject::qp, 7, a);
  router.add(EventObject::cq, 7, b);
  router.on_async_event(AsyncEventType::qp_fatal, 7);
  router.on_async_event(AsyncEventType::qp_fatal, 8);  // unknown
  EXPECT_EQ(a.pop()->type, AsyncEventType::qp_fatal);
  EXPECT_FALSE(a.pop());
  EXPECT_FALSE(b.pop());
  router.on_async_event(AsyncEventType::cq_error, 7);
  EXPECT_EQ(b.pop()->type, AsyncEventType::cq_error);
  EXPECT_FALSE(a.pop());
}

TEST(EventRouter, KeepsABoundedNumberOfEnds) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  AsyncEventQueue queue(std::move(*EventFd::create()), 16, {.client = 33});
  router.add(EventObject::qp, 7, queue);
  EXPECT_TRUE(router.take_ends().ends.empty());
  router.on_end({.qpn = 8});  // unknown
  for (int i = 0; i < 70; ++i) router.on_end({.qpn = 7, .status = WcStatus::retry_exceeded});
  const QpEnds told = router.take_ends();
  ASSERT_EQ(told.ends.size(), 64u);
  EXPECT_EQ(told.more, 6u);
  EXPECT_EQ(told.ends.front().client, 33u);
  EXPECT_EQ(told.ends.back().end.status, WcStatus::retry_exceeded);
  EXPECT_TRUE(router.take_ends().ends.empty());
}

TEST(EventRouter, ForgetsAnObjectWithItsEvents) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  Queue queue;
  router.add(EventObject::srq, 3, queue);
  router.on_async_event(AsyncEventType::srq_limit_reached, 3);
  router.remove(EventObject::srq, 3);
  router.on_async_event(AsyncEventType::srq_limit_reached, 3);
  EXPECT_FALSE(queue.pop());
  router.remove(EventObject::srq, 3);
}

TEST(EventRouter, ReportsAnObjectToAllWhoHaveItOnceEach) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  Queue a, b;
  for (AsyncEventQueue* queue :
       {static_cast<AsyncEventQueue*>(&a), static_cast<AsyncEventQueue*>(&b), static_cast<AsyncEventQueue*>(&a)}) {
    router.add(EventObject::qp, 7, *queue);
  }
  router.on_async_event(AsyncEventType::qp_fatal, 7);
  EXPECT_TRUE(a.pop());
  EXPECT_FALSE(a.pop());
  router.remove(EventObject::qp, 7, b);
  EXPECT_FALSE(b.pop());  // discarded
  router.remove(EventObject::qp, 7, a);
  router.on_async_event(AsyncEventType::qp_fatal, 7);
  EXPECT_TRUE(a.pop());
  router.remove(EventObject::qp, 7, a);
  router.on_async_event(AsyncEventType::qp_fatal, 7);
  EXPECT_FALSE(a.pop());
  EXPECT_FALSE(b.pop());
}

TEST(EventRouter, BroadcastsToListeners) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  Queue a, b;
  router.add_listener(a);
  router.add_listener(b);
  router.broadcast({AsyncEventType::port_error, 1});
  EXPECT_TRUE(a.pop());
  EXPECT_TRUE(b.pop());
  router.remove_listener(a);
  router.broadcast({AsyncEventType::port_active, 1});
  EXPECT_FALSE(a.pop());
  EXPECT_EQ(b.pop()->type, AsyncEventType::port_active);
}

TEST(EventRouter, IgnoresCompletionEventsOfUnknownQueues) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  for (const uint32_t id : {0u, 1u, 5u, 0xffffffffu}) router.on_completion_event(id);
}

TEST(EventRouter, KeepsWrongKeysByPeerAndUserUntilTheyAreTaken) {
  const IdTable<CompletionListener> cqs{4};
  EventRouter router(cqs);
  const Gid peer = Gid::from_ipv4(0x0a000002), other = Gid::from_ipv4(0x0a000003);
  AsyncEventQueue alice(std::move(*EventFd::create()), 16, {.user = 1000}),
      bob(std::move(*EventFd::create()), 16, {.user = 2000});
  router.add(EventObject::qp, 7, alice);
  router.add(EventObject::qp, 8, bob);
  EXPECT_TRUE(router.take_wrong_keys().empty());
  for (const uint32_t qpn : {7, 7, 8, 9}) router.on_wrong_key(peer, qpn);  // 9 is unknown
  router.on_wrong_key(other, 7);
  const auto taken = router.take_wrong_keys();
  ASSERT_EQ(taken.size(), 3u);
  const auto expect = [](const WrongKeys& row, const Gid& of, uint32_t user, uint32_t connections) {
    EXPECT_EQ(row.peer, of);
    EXPECT_EQ(row.user, user);
    EXPECT_EQ(row.connections, connections);
  };
  expect(taken[0], peer, 1000, 2);
  expect(taken[1], peer, 2000, 1);
  expect(taken[2], other, 1000, 1);
  EXPECT_TRUE(router.take_wrong_keys().empty());
  for (uint32_t i = 0; i < 1000; ++i) router.on_wrong_key(Gid::from_ipv4(i), 7);
  EXPECT_EQ(router.take_wrong_keys().size(), 64u) << "bounded";
  router.remove(EventObject::qp, 7);
  router.remove(EventObject::qp, 8);
}

}  // namespace
}  // namespace uroce::control
