#include "transport/qp/inbound_message.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

using wire::Op;

TEST(InboundMessage, OutsideAMessageOnlyAFirstOrAnOnlyMayCome) {
  const InboundMessage message;
  EXPECT_TRUE(message.may_go_on_with(Op::send | Op::first));
  EXPECT_FALSE(message.may_go_on_with(Op::send | Op::last));
  EXPECT_FALSE(message.in_progress());
}

TEST(InboundMessage, WithinAMessageOnlyItsOwnKindMayFollow) {
  InboundMessage message;
  message.begin_send();
  message.add_to_send(1024);
  EXPECT_TRUE(message.may_go_on_with(Op::send | Op::last));
  EXPECT_FALSE(message.may_go_on_with(Op::write | Op::last));
  EXPECT_FALSE(message.may_go_on_with(Op::send | Op::first));
  message.add_to_send(10);
  EXPECT_EQ(message.bytes(), 1034u);
  message.end();
  EXPECT_FALSE(message.in_progress());
  message.add_to_write(0);
  EXPECT_EQ(message.kind(), InboundMessage::Kind::write);
  EXPECT_TRUE(message.may_go_on_with(Op::write | Op::last));
  EXPECT_FALSE(message.may_go_on_with(Op::send | Op::last));
}

TEST(InboundMessage, AWriteEndsWithExactlyTheBytesOfItsReth) {
  InboundMessage message;
  message.begin_write({.va = 0x1000, .rkey = 7, .length = 300});
  EXPECT_FALSE(message.in_progress()) << "its first packet may still be refused";
  EXPECT_TRUE(message.fits_reth(Op::write | Op::first, 256));
  EXPECT_FALSE(message.fits_reth(Op::write | Op::first, 300)) << "more packets are to follow";
  message.add_to_write(256);
  EXPECT_EQ(message.write_va(), 0x1100u);
  EXPECT_EQ(message.rkey(), 7u);
  EXPECT_FALSE(message.fits_reth(Op::write | Op::last, 43));
  EXPECT_TRUE(message.fits_reth(Op::write | Op::last, 44));
  EXPECT_EQ(message.bytes(), 300u);
}

TEST(InboundMessage, IsIdleWithoutMessageReceiveAndLaterRequests) {
  InboundMessage message;
  EXPECT_TRUE(message.idle());
  message.take_recv(2);
  EXPECT_FALSE(message.idle());
  message.drop_recv();
  EXPECT_TRUE(message.idle());
  message.on_shared_recv();
  EXPECT_FALSE(message.idle());
  message.on_recv_published();
  message.set_later_wait(true);
  EXPECT_FALSE(message.idle());
  message.set_later_wait(false);
  message.add_to_send(0);
  EXPECT_FALSE(message.idle());
}

}  // namespace
}  // namespace uroce::transport
