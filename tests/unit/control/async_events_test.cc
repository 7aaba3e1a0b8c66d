#include "control/async_events.h"

#include <gtest/gtest.h>

#include "readable.h"

namespace uroce::control {
namespace {

AsyncEventQueue make_queue(uint32_t capacity) { return AsyncEventQueue(std::move(*EventFd::create()), capacity); }

TEST(AsyncEventQueue, IsReadableAsLongAsEventsWaitAndKeepsTheirOrder) {
  auto queue = make_queue(4);
  EXPECT_FALSE(queue.pop());
  queue.push({AsyncEventType::qp_fatal, 17});
  queue.push({AsyncEventType::cq_error, 3});
  EXPECT_TRUE(readable(queue.fd()));
  EXPECT_EQ(queue.pop()->object, 17u);
  EXPECT_TRUE(readable(queue.fd()));
  EXPECT_EQ(queue.pop()->type, AsyncEventType::cq_error);
  EXPECT_FALSE(readable(queue.fd()));
  EXPECT_FALSE(queue.pop());
}

TEST(AsyncEventQueue, IsBoundedAndCountsLostEvents) {
  auto queue = make_queue(2);
  for (uint32_t i = 0; i < 5; ++i) queue.push({AsyncEventType::qp_fatal, i});
  EXPECT_EQ(queue.lost(), 3u);
  EXPECT_EQ(queue.pop()->object, 0u);
  EXPECT_EQ(queue.pop()->object, 1u);
  EXPECT_FALSE(queue.pop());
  queue.push({AsyncEventType::qp_fatal, 9});
  EXPECT_EQ(queue.pop()->object, 9u);
}

TEST(AsyncEventQueue, GrowsWithTheObjects) {
  auto queue = make_queue(2);
  queue.push({AsyncEventType::qp_fatal, 1});
  queue.pop();
  // In the middle of the array, so that growing unrolls them.
  queue.push({AsyncEventType::qp_fatal, 2});
  queue.push({AsyncEventType::qp_fatal, 3});
  constexpr uint32_t kObjects = 1000;
  for (uint32_t i = 0; i < kObjects; ++i) queue.add_object();
  constexpr uint32_t kRoom = AsyncEventQueue::kOfDevice + kObjects * AsyncEventQueue::kOfObject;
  for (uint32_t i = 2; i < kRoom; ++i) queue.push({AsyncEventType::sq_drained, i + 2});
  EXPECT_EQ(queue.lost(), 0u);
  for (uint32_t i = 0; i < kRoom; ++i) ASSERT_EQ(queue.pop()->object, i + 2);
  EXPECT_FALSE(readable(queue.fd()));
}

TEST(AsyncEventQueue, PurgesOneObjectOfOneKind) {
  auto queue = make_queue(3);
  // Starts in the middle of the array, so that the purge wraps.
  queue.push({AsyncEventType::qp_fatal, 1});
  queue.push({AsyncEventType::qp_fatal, 1});
  queue.pop();
  queue.pop();
  queue.push({AsyncEventType::qp_fatal, 5});
  queue.push({AsyncEventType::cq_error, 5});
  queue.push({AsyncEventType::sq_drained, 5});
  queue.purge(EventObject::qp, 5);
  EXPECT_EQ(queue.pop()->type, AsyncEventType::cq_error);
  EXPECT_FALSE(queue.pop());
  EXPECT_FALSE(readable(queue.fd()));
}

TEST(AsyncEventQueue, EveryTypeNamesItsKindOfObject) {
  EXPECT_EQ(object_of(AsyncEventType::cq_error), EventObject::cq);
  EXPECT_EQ(object_of(AsyncEventType::srq_limit_reached), EventObject::srq);
  EXPECT_EQ(object_of(AsyncEventType::srq_error), EventObject::srq);
  EXPECT_EQ(object_of(AsyncEventType::port_active), EventObject::port);
  EXPECT_EQ(object_of(AsyncEventType::port_error), EventObject::port);
  EXPECT_EQ(object_of(AsyncEventType::gid_change), EventObject::port);
  EXPECT_EQ(object_of(AsyncEventType::communication_established), EventObject::qp);
  EXPECT_EQ(object_of(AsyncEventType::last_wqe_reached), EventObject::qp);
}

}  // namespace
}  // namespace uroce::control
