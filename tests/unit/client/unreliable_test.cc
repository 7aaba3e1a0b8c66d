// UC and UD through the public API.
#include <cerrno>
#include <cstring>

#include "endpoints.h"

namespace uroce {
namespace {

using test::must;
using test::next;
using test::Side;

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kGrh = 40;
const Gid kGroup = Gid::from_ipv4(0xe0000107);

struct ServiceShape {
  bool loopback;
  uint32_t engines;
};

class UnreliableTest : public testing::TestWithParam<ServiceShape> {
 protected:
  UnreliableTest() {
    world_.add({.engines = GetParam().engines});
    world_.add({.engines = GetParam().engines});
    a_.emplace(world_.device(0));
    b_.emplace(world_.device(GetParam().loopback ? 0 : 1));
    for (std::size_t i = 0; i < Side::kBytes; ++i) {
      a_->memory[i] = static_cast<std::byte>(i * 7);
      b_->memory[i] = static_cast<std::byte>(i * 13 + 5);
    }
  }
  static QueuePair datagram_qp(Side& side, uint32_t qkey = kQkey) {
    auto qp = side.make_qp({.type = QpType::ud});
    must(qp.start(qkey));
    return qp;
  }
  void expect_quiet(Side& side) {
    for (int i = 0; i < 100; ++i) world_.poll();
    Completion completion;
    EXPECT_EQ(side.cq.poll({&completion, 1}), 0u);
  }

  test::World world_;
  std::optional<Side> a_, b_;
};

TEST_P(UnreliableTest, ConnectedSendsAndWrites) {
  auto qa = a_->make_qp({.type = QpType::uc}), qb = b_->make_qp({.type = QpType::uc});
  connect(*a_, qa, *b_, qb);
  ASSERT_EQ(qb.post_recv({.wr_id = 9, .sges = std::array{b_->mr.sge(0, 20000)}}), 0);
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a_->mr.sge(0, 10000)},
                          .remote_addr = b_->mr.sge(30000, 0).addr,
                          .rkey = b_->mr.rkey()}),
            0);
  ASSERT_EQ(qa.post_send({.opcode = WrOpcode::send_with_imm,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a_->mr.sge(100, 12345)},
                          .imm_or_key = 3}),
            0);
  EXPECT_EQ(next(world_, a_->cq).opcode, WcOpcode::rdma_write);
  EXPECT_EQ(next(world_, a_->cq).opcode, WcOpcode::send);
  const auto received = next(world_, b_->cq);
  EXPECT_EQ(received.wr_id, 9u);
  EXPECT_EQ(received.byte_len, 12345u);
  EXPECT_EQ(received.imm_or_key, 3u);
  EXPECT_EQ(std::memcmp(b_->memory.data(), a_->memory.data() + 100, 12345), 0);
  EXPECT_EQ(std::memcmp(b_->memory.data() + 30000, a_->memory.data(), 10000), 0);
  EXPECT_EQ(qa.post_send({.opcode = WrOpcode::rdma_read}), EINVAL);
}

TEST_P(UnreliableTest, DatagramsAndTheirAnswers) {
  auto qa = datagram_qp(*a_), qb = datagram_qp(*b_);
  const auto to_b = must(a_->pd.create_address_handle({.dgid = b_->context.info().gids[0]}));
  ASSERT_EQ(qb.post_recv({.wr_id = 9, .sges = std::array{b_->mr.sge(0, 2000)}}), 0);
  ASSERT_EQ(qa.post_send({.wr_id = 4,
                          .opcode = WrOpcode::send_with_imm,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a_->mr.sge(0, 1000)},
                          .imm_or_key = 77,
                          .ah = to_b.id(),
                          .remote_qpn = qb.qpn(),
                          .remote_qkey = kQkey}),
            0);
  EXPECT_EQ(next(world_, a_->cq).wr_id, 4u);
  const auto received = next(world_, b_->cq);
  EXPECT_EQ(received.status, WcStatus::success);
  EXPECT_EQ(received.byte_len, 1000 + kGrh);
  EXPECT_EQ(received.src_qpn, qa.qpn());
  EXPECT_EQ(received.imm_or_key, 77u);
  EXPECT_TRUE(received.flags.has(WcFlag::grh));
  EXPECT_EQ(std::memcmp(b_->memory.data() + kGrh, a_->memory.data(), 1000), 0);

  // The IPv4 header in front has the sender's address.
  uint32_t source = 0;
  for (int i = 0; i < 4; ++i) source = source << 8 | static_cast<uint8_t>(b_->memory[32 + static_cast<std::size_t>(i)]);
  EXPECT_EQ(Gid::from_ipv4(source), a_->context.info().gids[0]);
  const auto to_a = must(b_->pd.create_address_handle({.dgid = Gid::from_ipv4(source)}));
  ASSERT_EQ(qa.post_recv({.wr_id = 5, .sges = std::array{a_->mr.sge(5000, 100)}}), 0);
  // 10.2.5: with the high bit set, the queue pair's own Q_Key goes out.
  ASSERT_EQ(qb.post_send({.ah = to_a.id(), .remote_qpn = received.src_qpn, .remote_qkey = 0x80000000}), 0);
  EXPECT_EQ(next(world_, a_->cq).wr_id, 5u);
}

TEST_P(UnreliableTest, DatagramsOverIpv6) {
  auto qa = datagram_qp(*a_), qb = datagram_qp(*b_);
  const auto to_b = must(a_->pd.create_address_handle({.dgid = b_->context.info().gids[1], .sgid_index = 1}));
  ASSERT_EQ(qb.post_recv({.sges = std::array{b_->mr.sge(0, 200)}}), 0);
  ASSERT_EQ(qa.post_send(
                {.sges = std::array{a_->mr.sge(0, 60)}, .ah = to_b.id(), .remote_qpn = qb.qpn(), .remote_qkey = kQkey}),
            0);
  EXPECT_EQ(next(world_, b_->cq).byte_len, 60 + kGrh);
  EXPECT_EQ(std::memcmp(b_->memory.data() + 8, a_->context.info().gids[1].bytes.data(), 16), 0);
}

TEST_P(UnreliableTest, AnotherQKeyIsDropped) {
  auto qa = datagram_qp(*a_), qb = datagram_qp(*b_);
  const auto to_b = must(a_->pd.create_address_handle({.dgid = b_->context.info().gids[0]}));
  ASSERT_EQ(qb.post_recv({.sges = std::array{b_->mr.sge(0, 200)}}), 0);
  const SendRequest request{.ah = to_b.id(), .remote_qpn = qb.qpn(), .remote_qkey = kQkey + 1};
  ASSERT_EQ(qa.post_send(request), 0);
  expect_quiet(*b_);
  must(qb.modify({.qkey = kQkey + 1}, QpAttrBit::qkey));
  EXPECT_EQ(must(qb.query()).qkey, kQkey + 1);
  ASSERT_EQ(qa.post_send(request), 0);
  EXPECT_EQ(next(world_, b_->cq).byte_len, kGrh);
}

TEST_P(UnreliableTest, ADestroyedHandleFailsTheSendAndTheQpComesBack) {
  auto qa = datagram_qp(*a_);
  std::optional<AddressHandle> to_b = must(a_->pd.create_address_handle({.dgid = b_->context.info().gids[0]}));
  const uint32_t id = to_b->id();
  to_b.reset();
  ASSERT_EQ(qa.post_send({.ah = id, .remote_qpn = 7}), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::local_qp_operation_error);
  EXPECT_EQ(must(qa.query()).state, QpState::sqe);
  must(qa.modify({.state = QpState::rts}, QpAttrBit::state));
  const auto again = must(a_->pd.create_address_handle({.dgid = b_->context.info().gids[0]}));
  EXPECT_NE(again.id(), id);
  ASSERT_EQ(qa.post_send({.flags = SendFlag::signaled, .ah = again.id(), .remote_qpn = 7}), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
}

TEST_P(UnreliableTest, AHandleOfAnotherDomainIsNone) {
  auto qa = datagram_qp(*a_);
  auto pd = must(a_->context.create_pd());
  const auto foreign = must(pd.create_address_handle({.dgid = b_->context.info().gids[0]}));
  ASSERT_EQ(qa.post_send({.ah = foreign.id(), .remote_qpn = 7}), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::local_qp_operation_error);
}

TEST_P(UnreliableTest, AGroupReachesMembersOnEveryEngineAndTheSender) {
  auto qa = datagram_qp(*a_);
  std::vector<QueuePair> members;
  for (std::size_t i = 0; i < 4; ++i) {
    members.push_back(datagram_qp(*b_));
    must(members.back().attach_multicast(kGroup));
    ASSERT_EQ(members.back().post_recv({.wr_id = i, .sges = std::array{b_->mr.sge(1000 * i, 1000)}}), 0);
  }
  must(qa.attach_multicast(kGroup));
  ASSERT_EQ(qa.post_recv({.wr_id = 50, .sges = std::array{a_->mr.sge(20000, 1000)}}), 0);
  const auto to_group = must(a_->pd.create_address_handle({.dgid = kGroup}));
  const std::array sges{a_->mr.sge(0, 500)};
  const SendRequest send{.sges = sges, .ah = to_group.id(), .remote_qpn = kMulticastQpn, .remote_qkey = kQkey};
  ASSERT_EQ(qa.post_send(send), 0);
  uint64_t seen = 0;
  for (int i = 0; i < 4; ++i) {
    const auto completion = next(world_, b_->cq);
    seen |= uint64_t{1} << completion.wr_id;
    EXPECT_EQ(completion.src_qpn, qa.qpn());
  }
  EXPECT_EQ(seen, 15u);
  EXPECT_EQ(next(world_, a_->cq).wr_id, 50u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::memcmp(b_->memory.data() + 1000 * i + kGrh, a_->memory.data(), 500), 0);
  }
  must(members[0].detach_multicast(kGroup));
  members.pop_back();
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(members[i].post_recv({.wr_id = i, .sges = std::array{b_->mr.sge(0, 1000)}}), 0);
  }
  ASSERT_EQ(qa.post_send(send), 0);
  seen = 0;
  for (int i = 0; i < 2; ++i) seen |= uint64_t{1} << next(world_, b_->cq).wr_id;
  EXPECT_EQ(seen, 6u);
  expect_quiet(*b_);
}

TEST_P(UnreliableTest, EachTypeHasItsWayToStart) {
  auto rc = a_->make_qp(), ud = a_->make_qp({.type = QpType::ud});
  const auto started = rc.start(1);
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().code, EINVAL);
  const auto connected = ud.connect(b_->peer(rc, 0), {});
  ASSERT_FALSE(connected.has_value());
  EXPECT_EQ(connected.error().code, EINVAL);
  must(ud.start(1));
}

INSTANTIATE_TEST_SUITE_P(Shapes, UnreliableTest,
                         testing::Values(ServiceShape{false, 1}, ServiceShape{true, 1}, ServiceShape{false, 3},
                                         ServiceShape{true, 3}),
                         [](const auto& shape) {
                           return std::string(shape.param.loopback ? "Loopback" : "Wire") +
                                  std::to_string(shape.param.engines) + "Engines";
                         });

}  // namespace
}  // namespace uroce
