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

}  // namespace
}  // namespace uroce::control
