#include "validate/transitions.h"

#include <gtest/gtest.h>

namespace uroce::validate {
namespace {

using Bit = QpAttrBit;

std::optional<Finding> check(QpType type, QpState from, QpState to, QpAttrMask mask) {
  return check_transition(type, from, to, mask | Bit::state, "ibv_modify_qp()");
}

const QpAttrMask kInit = Bit::pkey_index | Bit::port;
const QpAttrMask kRcRtr =
    Bit::av | Bit::path_mtu | QpAttrMask(Bit::dest_qpn) | Bit::rq_psn | Bit::max_dest_rd_atomic | Bit::min_rnr_timer;
const QpAttrMask kRcRts = QpAttrMask(Bit::timeout) | Bit::retry_cnt | Bit::rnr_retry | Bit::sq_psn | Bit::max_rd_atomic;

TEST(ValidateTransitions, TheUsualWay) {
  EXPECT_FALSE(check(QpType::rc, QpState::reset, QpState::init, kInit | Bit::access_flags));
  EXPECT_FALSE(check(QpType::rc, QpState::init, QpState::rtr, kRcRtr));
  EXPECT_FALSE(check(QpType::rc, QpState::rtr, QpState::rts, kRcRts));
  EXPECT_FALSE(check(QpType::ud, QpState::reset, QpState::init, kInit | Bit::qkey));
  EXPECT_FALSE(check(QpType::ud, QpState::init, QpState::rtr, {}));
  EXPECT_FALSE(check(QpType::ud, QpState::rtr, QpState::rts, Bit::sq_psn));
  EXPECT_FALSE(check(QpType::xrc_target, QpState::rtr, QpState::rts, Bit::timeout | Bit::sq_psn));
  EXPECT_FALSE(check(QpType::raw_packet, QpState::reset, QpState::init, Bit::port));
  for (const QpState from : {QpState::init, QpState::rtr, QpState::rts, QpState::sqd, QpState::sqe, QpState::error}) {
    EXPECT_FALSE(check(QpType::rc, from, QpState::error, {}));
    EXPECT_FALSE(check(QpType::rc, from, QpState::reset, {}));
  }
}

TEST(ValidateTransitions, Faults) {
  const auto none = check(QpType::rc, QpState::reset, QpState::rts, {});
  EXPECT_EQ(none->misuse, Misuse::bad_transition);
  EXPECT_EQ(none->text, "ibv_modify_qp() from RESET to RTS");
  const auto missing = check(QpType::rc, QpState::rtr, QpState::rts, Bit::timeout | Bit::sq_psn);
  EXPECT_EQ(missing->misuse, Misuse::missing_attribute);
  EXPECT_EQ(missing->text,
            "ibv_modify_qp() from RTR to RTS lacks IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC");
  const auto extra = check(QpType::uc, QpState::rts, QpState::rts, Bit::min_rnr_timer | Bit::rate_limit);
  EXPECT_EQ(extra->misuse, Misuse::extra_attribute);
  EXPECT_EQ(extra->text, "ibv_modify_qp() from RTS to RTS may not have IBV_QP_MIN_RNR_TIMER");
  EXPECT_EQ(check(QpType::rc, QpState::sqe, QpState::rts, {})->misuse, Misuse::bad_transition) << "RC has no SQE";
  EXPECT_EQ(check(QpType::rc, QpState::error, QpState::rts, {})->misuse, Misuse::bad_transition);
  EXPECT_EQ(check(QpType::rc, QpState::rts, static_cast<QpState>(99), {})->text,
            "ibv_modify_qp() from RTS to an unknown state");
}

}  // namespace
}  // namespace uroce::validate
