// The transition table against a second one, written out as ibv_modify_qp(3) and the kernel's ib_modify_qp_is_ok() have
// it: every type, every pair of states, every attribute.
#include "transport/qp/state.h"

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

using enum QpAttrBit;

constexpr QpType kTypes[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_initiator, QpType::xrc_target};
constexpr QpState kStates[] = {QpState::reset, QpState::init, QpState::rtr,  QpState::rts,
                               QpState::sqd,   QpState::sqe,  QpState::error};
constexpr uint32_t kAttributes = 26;  // 21 to 24 are reserved

struct Rule {
  std::string required;
  std::string optional;
};
using Table = std::map<std::tuple<std::string, std::string, std::string>, Rule>;

const Table& table() {
  static const Table kTable = {
      {{"RC", "RESET", "INIT"}, {"pkey_index port access_flags", ""}},
      {{"UC", "RESET", "INIT"}, {"pkey_index port access_flags", ""}},
      {{"UD", "RESET", "INIT"}, {"pkey_index port qkey", ""}},
      {{"RC", "INIT", "INIT"}, {"", "pkey_index port access_flags"}},
      {{"UC", "INIT", "INIT"}, {"", "pkey_index port access_flags"}},
      {{"UD", "INIT", "INIT"}, {"", "pkey_index port qkey"}},
      {{"RC", "INIT", "RTR"},
       {"av path_mtu dest_qpn rq_psn max_dest_rd_atomic min_rnr_timer", "alt_path access_flags pkey_index"}},
      {{"UC", "INIT", "RTR"}, {"av path_mtu dest_qpn rq_psn", "alt_path access_flags pkey_index"}},
      {{"UD", "INIT", "RTR"}, {"", "pkey_index qkey"}},
      {{"RC", "RTR", "RTS"},
       {"timeout retry_cnt rnr_retry sq_psn max_rd_atomic",
        "cur_state alt_path access_flags min_rnr_timer path_mig_state rate_limit"}},
      {{"UC", "RTR", "RTS"}, {"sq_psn", "cur_state alt_path access_flags path_mig_state"}},
      {{"UD", "RTR", "RTS"}, {"sq_psn", "cur_state qkey"}},
      {{"RC", "RTS", "RTS"}, {"", "cur_state access_flags alt_path path_mig_state min_rnr_timer rate_limit"}},
      {{"UC", "RTS", "RTS"}, {"", "cur_state access_flags alt_path path_mig_state"}},
      {{"UD", "RTS", "RTS"}, {"", "cur_state qkey"}},
      {{"RC", "RTS", "SQD"}, {"", "en_sqd_async_notify"}},
      {{"UC", "RTS", "SQD"}, {"", "en_sqd_async_notify"}},
      {{"UD", "RTS", "SQD"}, {"", "en_sqd_async_notify"}},
      {{"RC", "SQD", "RTS"}, {"", "cur_state alt_path access_flags min_rnr_timer path_mig_state rate_limit"}},
      {{"UC", "SQD", "RTS"}, {"", "cur_state alt_path access_flags path_mig_state"}},
      {{"UD", "SQD", "RTS"}, {"", "cur_state qkey"}},
      {{"RC", "SQD", "SQD"},
       {"",
        "port av timeout retry_cnt rnr_retry max_rd_atomic max_dest_rd_atomic alt_path access_flags pkey_index "
        "min_rnr_timer path_mig_state rate_limit"}},
      {{"UC", "SQD", "SQD"}, {"", "av alt_path access_flags pkey_index path_mig_state"}},
      {{"UD", "SQD", "SQD"}, {"", "pkey_index qkey"}},
      {{"UC", "SQE", "RTS"}, {"", "cur_state access_flags"}},
      {{"UD", "SQE", "RTS"}, {"", "cur_state qkey"}},
      // As Linux has them.
      {{"XRC_INI", "RESET", "INIT"}, {"pkey_index port access_flags", ""}},
      {{"XRC_TGT", "RESET", "INIT"}, {"pkey_index port access_flags", ""}},
      {{"XRC_INI", "INIT", "INIT"}, {"", "pkey_index port access_flags"}},
      {{"XRC_TGT", "INIT", "INIT"}, {"", "pkey_index port access_flags"}},
      {{"XRC_INI", "INIT", "RTR"}, {"av path_mtu dest_qpn rq_psn", "alt_path access_flags pkey_index"}},
      {{"XRC_TGT", "INIT", "RTR"},
       {"av path_mtu dest_qpn rq_psn max_dest_rd_atomic min_rnr_timer", "alt_path access_flags pkey_index"}},
      {{"XRC_INI", "RTR", "RTS"},
       {"timeout retry_cnt rnr_retry sq_psn max_rd_atomic", "cur_state alt_path access_flags path_mig_state"}},
      {{"XRC_TGT", "RTR", "RTS"}, {"timeout sq_psn", "cur_state alt_path access_flags min_rnr_timer path_mig_state"}},
      {{"XRC_INI", "RTS", "RTS"}, {"", "cur_state access_flags alt_path path_mig_state"}},
      {{"XRC_TGT", "RTS", "RTS"}, {"", "cur_state access_flags alt_path path_mig_state min_rnr_timer"}},
      {{"XRC_INI", "RTS", "SQD"}, {"", "en_sqd_async_notify"}},
      {{"XRC_TGT", "RTS", "SQD"}, {"", "en_sqd_async_notify"}},
      {{"XRC_INI", "SQD", "RTS"}, {"", "cur_state alt_path access_flags path_mig_state"}},
      {{"XRC_TGT", "SQD", "RTS"}, {"", "cur_state alt_path access_flags min_rnr_timer path_mig_state"}},
      {{"XRC_INI", "SQD", "SQD"},
       {"", "port av timeout retry_cnt rnr_retry max_rd_atomic alt_path access_flags pkey_index path_mig_state"}},
      {{"XRC_TGT", "SQD", "SQD"},
       {"", "port av timeout max_dest_rd_atomic alt_path access_flags pkey_index min_rnr_timer path_mig_state"}},
  };
  return kTable;
}

QpAttrMask parse(const std::string& names) {
  QpAttrMask mask;
  for (uint32_t bit = 0; bit < kAttributes; ++bit) {
    const auto attribute = static_cast<QpAttrBit>(1u << bit);
    const std::string padded = " " + names + " ";
    if (padded.find(" " + std::string(name(attribute)) + " ") != std::string::npos) mask |= attribute;
  }
  return mask;
}

std::optional<Rule> rule(QpType type, QpState from, QpState to) {
  if (to == QpState::reset || to == QpState::error) return Rule{};
  const auto it = table().find({std::string(name(type)), std::string(name(from)), std::string(name(to))});
  if (it == table().end()) return std::nullopt;
  return it->second;
}

template <class Visit>
void for_each_transition(Visit visit) {
  for (const QpType type : kTypes) {
    for (const QpState from : kStates) {
      for (const QpState to : kStates) visit(type, from, to);
    }
  }
}

std::string trace(QpType type, QpState from, QpState to) {
  return std::string(name(type)) + " " + std::string(name(from)) + " -> " + std::string(name(to));
}

TEST(QpState, ExactlyTheTransitionsOfTheSpecificationExist) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    SCOPED_TRACE(trace(type, from, to));
    const auto expected = rule(type, from, to);
    const auto got = check_transition(type, from, to, (expected ? parse(expected->required) : QpAttrMask{}) | state);
    EXPECT_EQ(got.has_value(), expected.has_value()) << (got ? "" : got.error().text);
    if (!got) {
      EXPECT_EQ(got.error().code, EINVAL);
      const std::string refused = "cannot go from " + std::string(name(from)) + " to " + std::string(name(to));
      EXPECT_NE(got.error().text.find(refused), std::string::npos) << got.error().text;
    }
  });
}

TEST(QpState, EachRequiredAttributeIsMissedByName) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const auto expected = rule(type, from, to);
    if (!expected) return;
    SCOPED_TRACE(trace(type, from, to));
    const QpAttrMask required = parse(expected->required);
    for (uint32_t bit = 0; bit < kAttributes; ++bit) {
      const auto attribute = static_cast<QpAttrBit>(1u << bit);
      if (!required.has(attribute)) continue;
      const auto got = check_transition(type, from, to, required.without(attribute) | state);
      ASSERT_FALSE(got.has_value()) << name(attribute);
      EXPECT_EQ(got.error().code, EINVAL);
      EXPECT_NE(got.error().text.find("needs attribute " + std::string(name(attribute)) + " to go from"),
                std::string::npos)
          << got.error().text;
    }
  });
}

TEST(QpState, EachOtherAttributeIsTakenWhereOptionalAndRefusedByNameElsewhere) {
  for_each_transition([](QpType type, QpState from, QpState to) {
    const auto expected = rule(type, from, to);
    if (!expected) return;
    SCOPED_TRACE(trace(type, from, to));
    const QpAttrMask required = parse(expected->required);
    const QpAttrMask allowed = required | parse(expected->optional) | state;
    for (uint32_t bit = 0; bit < kAttributes; ++bit) {
      const auto attribute = static_cast<QpAttrBit>(1u << bit);
      const auto got = check_transition(type, from, to, required | attribute);
      EXPECT_EQ(got.has_value(), allowed.has(attribute)) << name(attribute);
      if (!got) {
        EXPECT_NE(got.error().text.find("does not take attribute " + std::string(name(attribute)) + " "),
                  std::string::npos)
            << got.error().text;
      }
    }
    EXPECT_TRUE(check_transition(type, from, to, allowed).has_value());
  });
}

TEST(QpState, UnknownBitsAndValuesAreRefused) {
  EXPECT_FALSE(check_transition(QpType::rc, QpState::reset, QpState::reset, QpAttrMask::from_bits(1u << 25)));
  EXPECT_FALSE(check_transition(static_cast<QpType>(11), QpState::init, QpState::error, state));
  EXPECT_FALSE(check_transition(QpType::rc, static_cast<QpState>(9), QpState::error, state));
  EXPECT_FALSE(check_transition(QpType::rc, QpState::init, static_cast<QpState>(9), state));
  EXPECT_EQ(name(static_cast<QpState>(9)), "?");
  EXPECT_EQ(name(static_cast<QpAttrBit>(3)), "unknown");
}

class QpValues : public testing::Test {
 protected:
  QpValues() {
    gids_[0] = Gid::from_ipv4(0x0a000001);
    gids_[1].bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    good_.state = QpState::rtr;
    good_.dest_qpn = 0x123456;
    good_.av.dgid = Gid::from_ipv4(0x0a000002);
  }
  /// Expects `attr` to be fine without the bit, and with it to be refused by a text that has `word`.
  void expect_refused(QpAttrBit bit, const QpAttr& attr, const std::string& word, int code = EINVAL) const {
    EXPECT_TRUE(check_values(QpType::rc, attr, QpAttrMask{}, limits()).has_value());
    const auto got = check_values(QpType::rc, attr, bit, limits());
    ASSERT_FALSE(got.has_value()) << name(bit);
    EXPECT_EQ(got.error().code, code);
    EXPECT_NE(got.error().text.find(word), std::string::npos) << got.error().text;
    EXPECT_NE(got.error().text.find(name(bit)), std::string::npos) << got.error().text;
  }
  AttrLimits limits() const { return {Mtu::mtu2048, gids_}; }

  std::array<Gid, 2> gids_;
  QpAttr good_;
};

TEST_F(QpValues, DefaultsPass) {
  const QpAttrMask all = QpAttrMask::from_bits((1u << kAttributes) - 1).without(alt_path);
  const auto got = check_values(QpType::rc, good_, all, limits());
  EXPECT_TRUE(got.has_value()) << got.error().text;
}

TEST_F(QpValues, NumbersAreHeldToTheirRanges) {
  const auto check = [this](QpAttrBit bit, auto QpAttr::* member, uint32_t last_good) {
    QpAttr attr = good_;
    using Value = std::remove_reference_t<decltype(attr.*member)>;
    attr.*member = static_cast<Value>(last_good);
    EXPECT_TRUE(check_values(QpType::rc, attr, bit, limits()).has_value()) << name(bit);
    attr.*member = static_cast<Value>(last_good + 1);
    expect_refused(bit, attr, std::to_string(last_good + 1));
  };
  check(timeout, &QpAttr::timeout, 31);
  check(retry_cnt, &QpAttr::retry_cnt, 7);
  check(rnr_retry, &QpAttr::rnr_retry, 7);
  check(min_rnr_timer, &QpAttr::min_rnr_timer, 31);
  check(rq_psn, &QpAttr::rq_psn, 0xffffff);
  check(sq_psn, &QpAttr::sq_psn, 0xffffff);
  check(max_rd_atomic, &QpAttr::max_rd_atomic, 128);
  check(max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic, 128);
  check(dest_qpn, &QpAttr::dest_qpn, 0xfffffe);
  check(port, &QpAttr::port, 1);
  check(pkey_index, &QpAttr::pkey_index, 0);
}

TEST_F(QpValues, ARateLimitIsNoneOrNotTooLow) {
  QpAttr attr = good_;
  for (const uint32_t good : {0u, kMinRateLimit, UINT32_MAX}) {
    attr.rate_limit = good;
    EXPECT_TRUE(check_values(QpType::rc, attr, rate_limit, limits()).has_value()) << good;
  }
  attr.rate_limit = kMinRateLimit - 1;
  expect_refused(rate_limit, attr, std::to_string(kMinRateLimit - 1));
}

TEST_F(QpValues, ReservedNumbersAreRefused) {
  QpAttr attr = good_;
  attr.port = 0;
  expect_refused(port, attr, "0");
  attr.dest_qpn = 1;
  expect_refused(dest_qpn, attr, "1");
  attr.state = static_cast<QpState>(7);
  expect_refused(state, attr, "7");
}

TEST_F(QpValues, PathMtuIsThePorts) {
  QpAttr attr = good_;
  attr.path_mtu = Mtu::mtu2048;
  EXPECT_TRUE(check_values(QpType::rc, attr, path_mtu, limits()).has_value());
  attr.path_mtu = Mtu::mtu4096;
  expect_refused(path_mtu, attr, "4096 bytes; this port carries at most 2048");
  attr.path_mtu = static_cast<Mtu>(0);
  expect_refused(path_mtu, attr, "0");
  attr.path_mtu = static_cast<Mtu>(6);
  expect_refused(path_mtu, attr, "6");
}

TEST_F(QpValues, AddressVectorFitsTheGidTable) {
  QpAttr attr = good_;
  attr.av.sgid_index = 2;
  expect_refused(av, attr, "sgid_index 2");
  attr.av.sgid_index = 1;
  expect_refused(av, attr, "mixes IPv4 and IPv6");
  attr = good_;
  attr.av.dgid = Gid{};
  expect_refused(av, attr, "zero dgid");
  attr.av.dgid.bytes[0] = 0xff;
  expect_refused(av, attr, "multicast");
  attr = good_;
  attr.av.flow_label = 1u << 20;
  expect_refused(av, attr, "20 bits");
}

TEST_F(QpValues, WhatIsNotServedSaysSo) {
  QpAttr attr = good_;
  expect_refused(alt_path, attr, "migration", EOPNOTSUPP);
  attr.access = AccessFlags::from_bits(1u << 10);
  expect_refused(access_flags, attr, "0x400");
}

}  // namespace
}  // namespace uroce::transport
