#include "transport/qp/send_cursor.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

void expect_at(const SendCursor& cursor, uint32_t index, uint32_t packet) {
  EXPECT_EQ(cursor.index(), index);
  EXPECT_EQ(cursor.packet(), packet);
}

TEST(SendCursor, StepsThroughRequests) {
  SendCursor cursor(7);
  expect_at(cursor, 7, 0);
  cursor.step(1, 3);
  expect_at(cursor, 7, 1);
  cursor.step(2, 3);
  expect_at(cursor, 8, 0);
  cursor.step(5, 5);
  expect_at(cursor, 9, 0);
  cursor.step(0, 0);  // a local operation has no packets
  expect_at(cursor, 10, 0);
}

TEST(SendCursor, IndicesWrap) {
  SendCursor cursor(UINT32_MAX);
  cursor.step(1, 1);
  expect_at(cursor, 0, 0);
}

TEST(SendCursor, MovesBackAndForth) {
  SendCursor cursor(7);
  cursor.move_to(3, 9);
  expect_at(cursor, 3, 9);
  cursor.move_to(5);
  expect_at(cursor, 5, 0);
}

TEST(SendCursor, SkipsWhatIsAcknowledgedAndNeverGoesBackForIt) {
  SendCursor cursor(1);
  cursor.skip_to_packet(4);
  expect_at(cursor, 1, 4);
  cursor.skip_to_packet(2);
  expect_at(cursor, 1, 4);
}

}  // namespace
}  // namespace uroce::transport
