#include "transport/qp/ack_coalescing.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

const uint8_t kAck = wire::Aeth::ack(0);
const uint8_t kNak = wire::Aeth::nak(wire::NakCode::psn_sequence);

TEST(PendingReply, KeepsTheNewestAck) {
  PendingReply reply;
  EXPECT_FALSE(reply.pending());
  EXPECT_TRUE(reply.queue(Psn(0xffffff), kAck));
  EXPECT_TRUE(reply.queue(Psn(2), kAck)) << "three later, across the wrap";
  EXPECT_FALSE(reply.queue(Psn(1), kAck));
  EXPECT_EQ(reply.psn(), Psn(2));
  EXPECT_EQ(reply.kind(), wire::AethKind::ack);
  EXPECT_TRUE(reply.queue(Psn(2), kAck)) << "the same once more";
}

TEST(PendingReply, ANakTakesThePlaceOfAnAck) {
  PendingReply reply;
  reply.queue(Psn(5), kAck);
  EXPECT_TRUE(reply.queue(Psn(6), kNak));
  EXPECT_EQ(reply.kind(), wire::AethKind::nak);
  EXPECT_EQ(reply.psn(), Psn(6));
  EXPECT_EQ(reply.syndrome(), kNak);
  EXPECT_FALSE(reply.queue(Psn(5), kAck)) << "the NAK acknowledges that too";
  EXPECT_EQ(reply.kind(), wire::AethKind::nak);
  EXPECT_TRUE(reply.queue(Psn(4), wire::Aeth::rnr(3))) << "what is no ACK always counts";
  EXPECT_EQ(reply.kind(), wire::AethKind::rnr_nak);
}

TEST(PendingReply, OnceSentNothingIsRemembered) {
  PendingReply reply;
  reply.queue(Psn(9), kAck);
  reply.on_sent();
  EXPECT_FALSE(reply.pending());
  EXPECT_TRUE(reply.queue(Psn(3), kAck)) << "a duplicate is acknowledged anew";
  EXPECT_EQ(reply.psn(), Psn(3));
}

}  // namespace
}  // namespace uroce::transport
