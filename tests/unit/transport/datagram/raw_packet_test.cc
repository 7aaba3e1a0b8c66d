// Raw packet queue pairs between engines: whole frames out, whole frames in, and what does not leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "tests/unit/transport/datagram/two_hosts.h"
#include "transport/datagram/flow_table.h"

namespace uroce::transport {
namespace {

constexpr EthAddr kGroupMac{{1, 0x50, 0x56, 0x19, 0x20, 0xa7}};

class RawPacket : public TwoHosts {
 protected:
  RawPacket() {
    sender_ = &make_qp(left_, 0x11, QpType::raw_packet, sender_cq_);
    near_ = &make_qp(left_, 0x12, QpType::raw_packet, near_cq_);
    far_ = &make_qp(right_, 0x22, QpType::raw_packet, far_cq_);
    for (TestQp* qp : {sender_, near_, far_}) qp->connect({}, {});
    source_ = &left_.make_region(4096, kWriteAccess);
    near_inbox_ = &left_.make_region(4096, kWriteAccess);
    far_inbox_ = &right_.make_region(4096, kWriteAccess);
    const Sge near_in = near_inbox_->sge(0, 2048), far_in = far_inbox_->sge(0, 2048);
    for (uint64_t n = 0; n < 4; ++n) {
      EXPECT_TRUE(near_->post_recv({.wr_id = 100 + n, .sges = {&near_in, 1}}));
      EXPECT_TRUE(far_->post_recv({.wr_id = 200 + n, .sges = {&far_in, 1}}));
    }
  }
  static FlowEntry entry(uint32_t qpn, FlowType type = FlowType::all_default) {
    return {.id = qpn, .qpn = qpn, .type = type, .pattern = wire::make_pattern({.type = type}).value()};
  }
  // As TwoHosts, with the port's part: raw frames find the rules of the other side.
  void settle_raw() {
    for (int rounds = 0; rounds < 1000; ++rounds) {
      now_ += Nanos(1000);
      std::size_t moved = 0;
      for (TestEndpoint* from : {&left_, &right_}) {
        from->run(now_);
        TestEndpoint* to = from == &left_ ? &right_ : &left_;
        for (const auto& frame : from->sink().take()) {
          EXPECT_TRUE(frame.raw);
          sent_.push_back(frame.bytes);
          ++moved;
          ++(frame.loopback ? looped_ : crossed_);
          const RxFrame received{frame.bytes};
          if (frame.loopback) {
            EXPECT_EQ(frame.raw_receiver, from->engine().flows().match(frame.bytes));
          }
          (frame.loopback ? from : to)->engine().on_raw_frames({&received, 1}, now_);
        }
      }
      if (moved == 0) return;
    }
    FAIL() << "no rest";
  }
  void write_header(const EthAddr& to, uint16_t type) {
    std::byte* at = source_->bytes().data();
    std::memcpy(at, to.bytes.data(), 6);
    std::memcpy(at + 6, host(1).mac.bytes.data(), 6);
    store_be16(at + 12, type);
  }
  void send(uint32_t bytes) {
    const Sge out = source_->sge(0, bytes);
    ASSERT_TRUE(sender_->post_send({.wr_id = 1, .flags = SendFlag::signaled, .sges = {&out, 1}}));
    settle_raw();
  }
  void expect_send(WcStatus status) {
    const auto cqe = sender_cq_->poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->status, static_cast<uint8_t>(status));
  }
  const EngineCounters& counters() { return left_.engine().counters(); }

  TestQp *sender_, *near_, *far_;
  TestCq *sender_cq_, *near_cq_, *far_cq_;
  test::TestRegion *source_, *near_inbox_, *far_inbox_;
  std::vector<test::Frame> sent_;
};

TEST_F(RawPacket, AFrameArrivesAsItWasPosted) {
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  write_header(host(2).mac, 0x88b5);
  const Sge pieces[] = {source_->sge(0, 10), source_->sge(10, 200), source_->sge(210, 0), source_->sge(210, 1304)};
  ASSERT_TRUE(sender_->post_send({.wr_id = 7, .flags = SendFlag::signaled, .sges = pieces}));
  settle_raw();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].size(), 1514u);
  expect_send(WcStatus::success);
  const auto cqe = far_cq_->poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->wr_id, 200u);
  EXPECT_EQ(cqe->byte_len, 1514u);
  EXPECT_EQ(cqe->flags, 0u);
  EXPECT_EQ(std::memcmp(far_inbox_->bytes().data(), source_->bytes().data(), 1514), 0);
  EXPECT_EQ(left_.engine().traffic().sum().tx_bytes, 1514u);
  EXPECT_EQ(counters().raw_sent.get(), 1u);
  EXPECT_EQ(right_.engine().counters().raw_received.get(), 1u);
}

TEST_F(RawPacket, InlineFramesAndShortOnesLeave) {
  write_header(host(2).mac, 0x88b5);
  const auto bytes = source_->bytes();
  for (const std::size_t length : {14u, 60u, 127u, 128u, 129u, 256u}) {
    ASSERT_TRUE(sender_->post_send({.flags = SendFlag::inline_data, .inline_data = bytes.first(length)}));
    settle_raw();
    ASSERT_FALSE(sent_.empty());
    EXPECT_TRUE(std::ranges::equal(sent_.back(), bytes.first(length))) << length;
  }
  EXPECT_EQ(sent_.size(), 6u);
}

TEST_F(RawPacket, FramesBeyondTheMtuAndStumpsAreRefused) {
  write_header(host(2).mac, 0x88b5);
  for (const uint32_t bytes : {0u, 13u, 1515u, 1518u, 1519u, 4096u}) {
    send(bytes);
    expect_send(WcStatus::local_length_error);
    EXPECT_EQ(sender_->state(), QpState::sqe) << bytes;
    sender_->set_state(QpState::rts);
  }
  EXPECT_TRUE(sent_.empty());
  write_header(host(2).mac, 0x8100);
  send(1518);
  expect_send(WcStatus::success);
  EXPECT_EQ(sent_.size(), 1u) << "a tag is not counted";
}

TEST_F(RawPacket, RoceIsNotForged) {
  write_header(host(2).mac, 0x0800);
  std::byte* ip = source_->bytes().data() + 14;
  std::memset(ip, 0, 64);
  store8(ip, 0x45);
  store8(ip + 9, 17);
  store_be16(ip + 22, 4791);
  send(100);
  expect_send(WcStatus::local_qp_operation_error);
  EXPECT_EQ(counters().raw_refused.get(), 1u);
  EXPECT_TRUE(sent_.empty());
  sender_->set_state(QpState::rts);
  store_be16(ip + 22, 4790);
  send(100);
  expect_send(WcStatus::success);
  EXPECT_EQ(sent_.size(), 1u);
}

TEST_F(RawPacket, AForeignKeySendsNothing) {
  const Sge wrong{source_->va(), 60, source_->key() ^ 0x100};
  ASSERT_TRUE(sender_->post_send({.sges = {&wrong, 1}}));
  settle_raw();
  expect_send(WcStatus::local_protection_error);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(RawPacket, AFrameToThisDeviceStaysHere) {
  ASSERT_TRUE(left_.engine().flows().add(entry(0x12)));
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  write_header(host(1).mac, 0x88b5);
  send(60);
  expect_send(WcStatus::success);
  EXPECT_EQ(looped_, 1u);
  EXPECT_EQ(crossed_, 0u);
  EXPECT_TRUE(near_cq_->poll());
  left_.engine().flows().remove(0x12);
  send(60);
  expect_send(WcStatus::success);
  EXPECT_FALSE(near_cq_->poll());
  EXPECT_EQ(counters().raw_unclaimed.get(), 1u);
}

TEST_F(RawPacket, AFrameToAGroupReachesTheWireAndThisDevice) {
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  write_header(kGroupMac, 0x88b5);
  send(60);
  EXPECT_EQ(crossed_, 1u);
  EXPECT_EQ(looped_, 0u) << "nobody here wants it";
  ASSERT_TRUE(left_.engine().flows().add(entry(0x12)));
  send(60);
  EXPECT_EQ(crossed_, 2u);
  EXPECT_EQ(looped_, 1u);
  EXPECT_TRUE(near_cq_->poll());
  expect_send(WcStatus::success);
  expect_send(WcStatus::success);
  EXPECT_FALSE(sender_cq_->poll()) << "one completion for both";
}

TEST_F(RawPacket, RulesSeeNoFrameOfTheStack) {
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  write_header({{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}, 0x0806);
  send(60);
  EXPECT_EQ(crossed_, 1u);
  EXPECT_FALSE(far_cq_->poll()) << "ARP";
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22, FlowType::sniffer)));
  send(60);
  EXPECT_TRUE(far_cq_->poll());
  write_header(host(2).mac, 0x88b5);
  send(60);
  EXPECT_TRUE(far_cq_->poll());
  EXPECT_TRUE(far_cq_->poll()) << "the rule's and the sniffer's";
}

TEST_F(RawPacket, WithoutAReceiveOrRoomAFrameIsDropped) {
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  write_header(host(2).mac, 0x88b5);
  for (int i = 0; i < 5; ++i) send(60);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(far_cq_->poll());
  EXPECT_EQ(drops(right_, wire::Drop::recv_queue_empty), 1u);
  const Sge small = far_inbox_->sge(0, 64);
  ASSERT_TRUE(far_->post_recv({.wr_id = 9, .sges = {&small, 1}}));
  send(65);
  EXPECT_EQ(drops(right_, wire::Drop::payload_length), 1u);
  send(64);
  const auto cqe = far_cq_->poll();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->wr_id, 9u) << "the next frame takes the receive";
  EXPECT_EQ(far_->state(), QpState::rts);
}

TEST_F(RawPacket, OnlyRawPacketQueuePairsInTheRightStateReceive) {
  TestCq* rc_cq;
  TestQp& datagrams = make_qp(right_, 0x23, QpType::ud, rc_cq);
  datagrams.connect({}, {});
  const Sge in = far_inbox_->sge(0, 2048);
  ASSERT_TRUE(datagrams.post_recv({.sges = {&in, 1}}));
  ASSERT_TRUE(right_.engine().flows().add(entry(0x23)));
  write_header(host(2).mac, 0x88b5);
  send(60);
  EXPECT_FALSE(rc_cq->poll());
  right_.engine().flows().remove(0x23);
  ASSERT_TRUE(right_.engine().flows().add(entry(0x22)));
  far_->set_state(QpState::error);
  settle_raw();
  while (far_cq_->poll()) {
  }
  send(60);
  EXPECT_FALSE(far_cq_->poll());
  EXPECT_EQ(drops(right_, wire::Drop::qp_state), 1u);
}

TEST_F(RawPacket, RocePacketsToItsNumberAreDropped) {
  TestCq* cq;
  TestQp& datagrams = make_qp(left_, 0x31, QpType::ud, cq);
  datagrams.connect({}, {});
  const Sge out = source_->sge(0, 64);
  ASSERT_TRUE(datagrams.post_send(
      {.sges = {&out, 1}, .ah = left_.make_ah(left_.route_to(right_)), .remote_qpn = 0x22, .remote_qkey = 0x1234}));
  settle();
  EXPECT_EQ(drops(right_, wire::Drop::opcode_mismatch), 1u);
  EXPECT_FALSE(far_cq_->poll());
}

}  // namespace
}  // namespace uroce::transport
