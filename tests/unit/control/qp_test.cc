#include "control/qp.h"
#include "control/cq.h"
#include "control/qp_rows.h"

#include <cerrno>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "control/device_session.h"
#include "control/region.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::expect_error;
using test::World;
using namespace std::chrono_literals;
using enum QpAttrBit;

constexpr QpAttrMask kInit = state | pkey_index | port | access_flags;
constexpr QpAttrMask kRtr = state | av | path_mtu | dest_qpn | rq_psn | max_dest_rd_atomic | min_rnr_timer;
constexpr QpAttrMask kRts = state | sq_psn | timeout | retry_cnt | rnr_retry | max_rd_atomic;

class QpTest : public testing::Test {
 protected:
  void start(DeviceConfig config = {}) {
    world_.add(config);
    session_ = *DeviceSession::open(world_.device());
    pd_ = *session_->create_pd();
    cq_ = *session_->create_cq(64, nullptr);
  }
  Result<std::shared_ptr<ControlQp>> create(const QpInit& init = {}) {
    return session_->create_qp(pd_, cq_, cq_, init, nullptr);
  }
  static QpAttr attr(QpState to) {
    QpAttr attr;
    attr.state = to;
    attr.dest_qpn = 0x1234;
    attr.rq_psn = 0xfffffe;
    attr.sq_psn = 77;
    attr.max_rd_atomic = 3;
    attr.max_dest_rd_atomic = 5;
    attr.timeout = 14;
    attr.retry_cnt = 6;
    attr.rnr_retry = 5;
    attr.min_rnr_timer = 11;
    attr.av.dgid = World::gid(0);
    return attr;
  }
  static void to_rts(ControlQp& qp) {
    for (const auto& [to, mask] : {std::pair{QpState::init, kInit}, {QpState::rtr, kRtr}, {QpState::rts, kRts}}) {
      const auto ok = qp.modify(attr(to), mask);
      ASSERT_TRUE(ok.has_value()) << ok.error().text;
    }
  }

  World world_;
  std::shared_ptr<DeviceSession> session_;
  std::shared_ptr<Pd> pd_;
  std::shared_ptr<Cq> cq_;
};

TEST_F(QpTest, RingsAreRoundedUpAndReported) {
  start();
  const auto small = *create({.cap = {0, 0, 0, 0, 0}});
  EXPECT_EQ(small->cap().max_send_wr, 1u);
  EXPECT_EQ(small->cap().max_recv_wr, 1u);
  EXPECT_EQ(small->send_queue().stride, 64u);
  const auto odd = *create({.cap = {100, 33, 3, 4, 100}});
  EXPECT_EQ(odd->cap().max_send_wr, 128u);
  EXPECT_EQ(odd->cap().max_recv_wr, 64u);
  EXPECT_EQ(odd->cap().max_send_sge, 8u);
  EXPECT_EQ(odd->cap().max_inline_data, 128u);
  EXPECT_EQ(odd->cap().max_recv_sge, 7u);
  const auto large = *create({.cap = {kMaxQpWr, kMaxQpWr, kMaxSge, kMaxSge, kMaxInline}});
  EXPECT_EQ(large->cap().max_send_sge, kMaxSge);
  EXPECT_EQ(large->cap().max_inline_data, kMaxInline);
  EXPECT_EQ(large->cap().max_recv_sge, kMaxSge);
}

TEST_F(QpTest, SizesAndTypesThatCannotBeAreNamed) {
  start();
  expect_error(create({.cap = {.max_send_wr = kMaxQpWr + 1}}), EINVAL, "max_send_wr");
  expect_error(create({.cap = {.max_recv_wr = kMaxQpWr + 1}}), EINVAL, "max_recv_wr");
  expect_error(create({.cap = {.max_send_sge = 33}}), EINVAL, "max_send_sge");
  expect_error(create({.cap = {.max_recv_sge = 33}}), EINVAL, "max_recv_sge");
  expect_error(create({.cap = {.max_inline_data = 513}}), EINVAL, "max_inline_data");
  expect_error(create({.type = static_cast<QpType>(7)}), EOPNOTSUPP, "RC");
  expect_error(create({.engine = 1}), EINVAL, "engine");
  expect_error(create({.engine = -2}), EINVAL, "engine");
  expect_error(create({.retransmission = static_cast<Retransmission>(4)}), EINVAL, "retransmission 4");
  expect_error(create({.congestion_control = static_cast<CongestionAlgorithm>(9)}), EINVAL, "congestion_control 9");
  expect_error(create({.type = QpType::uc, .retransmission = Retransmission::selective}), EINVAL, "only RC");
  expect_error(create({.type = QpType::ud, .congestion_control = CongestionAlgorithm::dcqcn}), EINVAL, "\"dcqcn\"");
  EXPECT_TRUE(create({.retransmission = Retransmission::go_back_n, .congestion_control = CongestionAlgorithm::swift}));
}

TEST_F(QpTest, PlacementIsInTurnOrAsAsked) {
  start({.engines = 3});
  std::vector<std::shared_ptr<ControlQp>> qps;
  for (uint32_t i = 0; i < 6; ++i) {
    qps.push_back(*create());
    EXPECT_EQ(qps.back()->qpn() & 3, qps.back()->engine());
    EXPECT_EQ(qps[i]->engine(), qps[i % 3]->engine());
  }
  EXPECT_NE(qps[0]->engine(), qps[1]->engine());
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*create({.engine = 2}))->engine(), 2u);
}

TEST_F(QpTest, GoesThroughItsStatesAndReportsThem) {
  start();
  const auto qp = *create();
  EXPECT_EQ(qp->query()->state, QpState::reset);
  to_rts(*qp);
  const auto now = *qp->query();
  EXPECT_EQ(now.state, QpState::rts);
  EXPECT_EQ(now.dest_qpn, 0x1234u);
  EXPECT_EQ(now.rq_psn, 0xfffffeu);
  EXPECT_EQ(now.sq_psn, 77u);
  EXPECT_EQ(now.max_rd_atomic, 3u);
  EXPECT_EQ(now.max_dest_rd_atomic, 5u);
  EXPECT_EQ(now.retry_cnt, 6u);
  EXPECT_EQ(now.rnr_retry, 5u);
  EXPECT_EQ(now.min_rnr_timer, 11u);
  EXPECT_EQ(now.timeout, 14u);
  EXPECT_EQ(now.av.dgid, World::gid(0));
  EXPECT_EQ(now.cap.max_send_wr, qp->cap().max_send_wr);
  ASSERT_TRUE(qp->modify({.state = QpState::error}, state).has_value());
  EXPECT_EQ(qp->query()->state, QpState::error);
  ASSERT_TRUE(qp->modify({.state = QpState::reset}, state).has_value());
  EXPECT_EQ(qp->query()->state, QpState::reset);
  to_rts(*qp);
}

TEST_F(QpTest, DescribesPsnsOnlyWhereAsked) {
  start({});
  const auto qp = *create();
  to_rts(*qp);
  const auto psns = [&qp](bool wanted) {
    const ControlQp* const one[] = {qp.get()};
    return std::ranges::count_if(rows_of(one, wanted)[0],
                                 [](const auto& value) { return value.first.ends_with("psn"); });
  };
  EXPECT_EQ(psns(true), 2);
  EXPECT_EQ(psns(false), 0);
}

TEST_F(QpTest, DescribesTheTransportToTheOperator) {
  start({.settings = {.congestion = {.algorithm = CongestionAlgorithm::dcqcn}}});
  const auto text_of = [](const ControlQp& qp) {
    std::string text;
    const ControlQp* const one[] = {&qp};
    const auto rows = rows_of(one, true);
    for (const auto& [name, value] : rows[0]) text += name + "=" + value + " ";
    return text;
  };
  const auto qp = *create();
  to_rts(*qp);
  // 100 Gb/s for 10 us, until a round trip is known, and a quarter more.
  EXPECT_NE(text_of(*qp).find("congestion=dcqcn rate_mbps=line window=144 cnps_sent=0 cnps_received=0"),
            std::string::npos)
      << text_of(*qp);
  const auto other = *create({.congestion_control = CongestionAlgorithm::none});
  to_rts(*other);
  EXPECT_NE(text_of(*other).find("congestion=none rate_mbps=line window=256"), std::string::npos) << text_of(*other);
}

// One visit for each queue pair slowed traffic to a quarter.
TEST_F(QpTest, EnginesDescribeAFewAtATimeAndServeBetween) {
  start({.engines = 2});
  std::vector<std::shared_ptr<ControlQp>> qps;
  for (int i = 0; i < 100; ++i) qps.push_back(*create({.engine = i < 50 ? 0 : 1}));
  test::Port& port = world_.port();
  port.asleep = true;
  const auto list = [&](std::size_t first, std::size_t count) {
    std::vector<const ControlQp*> listed;
    for (std::size_t i = first; i < first + count; ++i) listed.push_back(qps[i].get());
    port.visits = port.steps = 0;
    const auto rows = rows_of(listed, false);
    ASSERT_EQ(rows.size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(rows[i][0].second, fmt::format("{:#08x}", listed[i]->qpn()));
    EXPECT_EQ(port.steps, port.visits) << "engines serve after each visit";
  };
  for (const std::size_t count : {1, 8, 9, 16, 17, 50}) {
    list(0, count);
    EXPECT_EQ(port.visits, (count + kQpsPerVisit - 1) / kQpsPerVisit) << count;
  }
  list(48, 4);
  EXPECT_EQ(port.visits, 2) << "one for each engine";
}

TEST_F(QpTest, AWrongModifyNamesItsFaultAndChangesNothing) {
  start();
  const auto qp = *create();
  expect_error(qp->modify(attr(QpState::rts), kRts), EINVAL, "cannot go from RESET to RTS");
  expect_error(qp->modify(attr(QpState::init), kInit.without(port)), EINVAL, "needs attribute port");
  expect_error(qp->modify(attr(QpState::init), kInit | timeout), EINVAL, "does not take attribute timeout");
  EXPECT_EQ(qp->query()->state, QpState::reset);
  ASSERT_TRUE(qp->modify(attr(QpState::init), kInit).has_value());
  QpAttr wrong = attr(QpState::rtr);
  wrong.path_mtu = Mtu::mtu4096;
  expect_error(qp->modify(wrong, kRtr), EINVAL, "path_mtu");
  wrong = attr(QpState::rtr);
  wrong.av.sgid_index = 2;
  expect_error(qp->modify(wrong, kRtr), EINVAL, "sgid_index 2");
  EXPECT_EQ(qp->query()->state, QpState::init);
  // Every error names the queue pair.
  const auto named = qp->modify(wrong, kRtr);
  EXPECT_EQ(named.error().text.find("QP 0x"), 0u) << named.error().text;
}

TEST_F(QpTest, CurStateIsCheckedAgainstTheEnginesOwn) {
  start();
  const auto qp = *create();
  to_rts(*qp);
  QpAttr sqd = attr(QpState::rts);
  sqd.cur_state = QpState::sqd;
  expect_error(qp->modify(sqd, state | cur_state), EINVAL, "cur_state is SQD, but the QP is in RTS");
  sqd.cur_state = QpState::rts;
  EXPECT_TRUE(qp->modify(sqd, state | cur_state).has_value());
}

TEST_F(QpTest, ResolvesThePeerButNotItself) {
  start();
  world_.add();  // the peer
  const auto qp = *create();
  ASSERT_TRUE(qp->modify(attr(QpState::init), kInit).has_value());
  QpAttr rtr = attr(QpState::rtr);
  rtr.av.dgid = World::gid(9);
  expect_error(qp->modify(rtr, kRtr), EHOSTUNREACH, "nobody answers");
  EXPECT_EQ(world_.port().resolves, 1);
  EXPECT_EQ(qp->query()->state, QpState::init);
  // A wrong mask is refused before the network is queried.
  expect_error(qp->modify(rtr, kRtr.without(rq_psn)), EINVAL, "rq_psn");
  EXPECT_EQ(world_.port().resolves, 1);
  rtr.av.dgid = World::gid(1);
  EXPECT_TRUE(qp->modify(rtr, kRtr).has_value());
  EXPECT_EQ(world_.port().resolves, 2);
  const auto self = *create();
  ASSERT_TRUE(self->modify(attr(QpState::init), kInit).has_value());
  EXPECT_TRUE(self->modify(attr(QpState::rtr), kRtr).has_value());
  EXPECT_EQ(world_.port().resolves, 2);
}

TEST_F(QpTest, ADeadEngineIsNamedAndTheQueuePairStaysUntilItIsKnownToRest) {
  start({.engine_timeout = 10ms});
  auto qp = *create();
  const uint32_t qpn = qp->qpn();
  world_.port().frozen = true;
  expect_error(create(), ETIMEDOUT, "engine 0 of uroce0");
  expect_error(qp->query(), ETIMEDOUT, "engine 0");
  expect_error(qp->modify(attr(QpState::init), kInit), ETIMEDOUT, "engine 0");
  const std::weak_ptr<Cq> watch = cq_;
  qp.reset();
  cq_.reset();
  EXPECT_FALSE(watch.expired()) << "the engine may still write to it";
  world_.port().frozen = false;
  world_.poll();
  // Its number is not reused while the engine may have it.
  cq_ = *session_->create_cq(4, nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_NE((*create())->qpn(), qpn);
  world_.stop();
  EXPECT_TRUE(watch.expired());
}

TEST_F(QpTest, WhatADeadEngineMayUseIsReleasedOnceItAnswers) {
  start({.engine_timeout = 10ms});
  auto qp = *create();
  world_.port().frozen = true;
  const std::weak_ptr<Cq> cq = cq_;
  const std::weak_ptr<Pd> pd = pd_;
  const std::weak_ptr<DeviceSession> session = session_;
  qp.reset();
  cq_.reset();
  pd_.reset();
  session_.reset();
  EXPECT_EQ(world_.device()->release_late(), 1u) << "the queue pair, which has the others";
  EXPECT_EQ(world_.device()->release_late(), 1u) << "the engine has not answered";
  EXPECT_FALSE(cq.expired() || pd.expired() || session.expired());
  world_.port().frozen = false;
  EXPECT_TRUE(world_.run_until([&] { return world_.device()->release_late() == 0; }));
  EXPECT_TRUE(cq.expired() && pd.expired() && session.expired());
  EXPECT_TRUE(DeviceSession::open(world_.device()).has_value());
}

TEST_F(QpTest, DoorbellsThatADeadEngineMayPollAreReleasedOnceItAnswers) {
  start({.engine_timeout = 10ms});
  cq_.reset();
  pd_.reset();
  world_.port().frozen = true;
  session_.reset();
  EXPECT_EQ(world_.device()->release_late(), 1u);
  world_.port().frozen = false;
  EXPECT_TRUE(world_.run_until([&] { return world_.device()->release_late() == 0; }));
}

TEST_F(QpTest, ACreateThatTimedOutLeavesNothingBehind) {
  start({.settings = {.max_qp = 2}, .engine_timeout = 10ms});
  world_.port().frozen = true;
  for (int i = 0; i < 5; ++i) expect_error(create(), ETIMEDOUT, "engine 0");
  world_.port().frozen = false;
  const auto a = create();
  const auto b = create();
  EXPECT_TRUE(a.has_value() && b.has_value());
}

TEST_F(QpTest, EnginesOfTheirOwnThread) {
  World threaded(World::Mode::threaded);
  threaded.add({.engines = 2});
  const auto session = *DeviceSession::open(threaded.device());
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(64, nullptr);
  std::vector<std::thread> users;
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto qp = *session->create_qp(pd, cq, cq, {}, nullptr);
        to_rts(*qp);
        EXPECT_EQ(qp->query()->state, QpState::rts);
      }
    });
  }
  for (auto& user : users) user.join();
}

}  // namespace
}  // namespace uroce::control
