#include "queues/recv_queue.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/test_queues.h"

namespace uroce::queues {
namespace {

TEST(RecvQueue, WritesRequestsUntilFullAndGoesOnWhenSlotsComeBack) {
  test::OwnedRing ring(4, recv_stride(3));
  RingConsumer consumer(ring.place);
  RecvQueue queue(ring.place, 3);
  const Sge sges[] = {{0x1000, 10, 1}, {0x2000, 20, 2}, {0x3000, 30, 3}};
  for (uint64_t round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(queue.post({.wr_id = round * 4 + i, .sges = sges}), 0);
    EXPECT_EQ(queue.post({}), ENOMEM);
    ASSERT_EQ(consumer.available(), 4u);
    for (uint32_t i = 0; i < 4; ++i) {
      const auto& wqe = *reinterpret_cast<const RecvWqe*>(consumer.slot(i));
      EXPECT_EQ(wqe.wr_id, round * 4 + i);
      EXPECT_EQ(wqe.num_sge, 3u);
      EXPECT_EQ(std::memcmp(&wqe + 1, sges, sizeof sges), 0);
    }
    consumer.consume(4);
  }
}

TEST(RecvQueue, RefusesTooManyEntries) {
  test::OwnedRing ring(4, recv_stride(3));
  RecvQueue queue(ring.place, 3);
  const Sge sges[4] = {};
  EXPECT_EQ(queue.post({.wr_id = 1, .sges = sges}), EINVAL);
  EXPECT_EQ(ring.place.header->producer, 0u);
}

TEST(RecvQueue, KnowsWhetherTheEngineWantsADoorbell) {
  test::OwnedRing ring(4, recv_stride(1));
  const RecvQueue queue(ring.place, 1);
  EXPECT_FALSE(queue.wants_doorbell());
  ring.place.header->wants_doorbell = 1;
  EXPECT_TRUE(queue.wants_doorbell());
}

}  // namespace
}  // namespace uroce::queues
