#include "validate/transitions.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/wr_opcodes.h"

namespace uroce::validate {

namespace {

using Bit = QpAttrBit;

struct Rule {
  QpAttrMask needed{};
  QpAttrMask allowed{};  ///< besides
};

constexpr QpAttrMask kPath = Bit::alt_path | Bit::path_mig_state;

Rule to_init(QpType type, bool needed) {
  QpAttrMask mask = Bit::pkey_index | Bit::port;
  if (type == QpType::raw_packet) return needed ? Rule{Bit::port, Bit::pkey_index} : Rule{{}, mask};
  mask |= type == QpType::ud ? Bit::qkey : Bit::access_flags;
  return needed ? Rule{mask, {}} : Rule{{}, mask};
}

Rule to_rtr(QpType type) {
  if (type == QpType::raw_packet) return {};
  if (type == QpType::ud) return {{}, Bit::pkey_index | Bit::qkey};
  QpAttrMask needed = Bit::av | Bit::path_mtu | Bit::dest_qpn;
  needed |= Bit::rq_psn;
  if (type == QpType::rc || type == QpType::xrc_target) needed |= Bit::max_dest_rd_atomic | Bit::min_rnr_timer;
  return {needed, QpAttrMask(Bit::alt_path) | Bit::access_flags | Bit::pkey_index};
}

QpAttrMask changeable_at_rts(QpType type) {
  if (type == QpType::raw_packet) return Bit::cur_state;
  if (type == QpType::ud) return Bit::cur_state | Bit::qkey;
  QpAttrMask mask = kPath | Bit::cur_state | Bit::access_flags;
  if (type == QpType::rc || type == QpType::xrc_target) mask |= Bit::min_rnr_timer;
  return mask;
}

Rule to_rts(QpType type) {
  QpAttrMask needed{};
  if (type != QpType::raw_packet) needed |= Bit::sq_psn;
  if (is_reliable(type)) needed |= Bit::timeout;
  if (type == QpType::rc || type == QpType::xrc_initiator) {
    needed |= Bit::retry_cnt | Bit::rnr_retry;
    needed |= Bit::max_rd_atomic;
  }
  return {needed, changeable_at_rts(type)};
}

Rule while_drained(QpType type) {
  if (type == QpType::ud) return {{}, Bit::pkey_index | Bit::qkey};
  QpAttrMask mask = kPath | Bit::av | Bit::access_flags | Bit::pkey_index;
  if (is_reliable(type)) {
    mask |= Bit::port | Bit::timeout;
    mask |= Bit::retry_cnt | Bit::rnr_retry;
    mask |= Bit::max_rd_atomic | Bit::max_dest_rd_atomic;
    mask |= Bit::min_rnr_timer;
  }
  return {{}, mask};
}

/// Nullopt where there is no such change.
std::optional<Rule> rule_of(QpType type, QpState from, QpState to) {
  if (to == QpState::reset || (to == QpState::error && from != QpState::reset)) return Rule{};
  const auto is = [from, to](QpState one, QpState other) { return from == one && to == other; };
  if (is(QpState::reset, QpState::init)) return to_init(type, true);
  if (is(QpState::init, QpState::init)) return to_init(type, false);
  if (is(QpState::init, QpState::rtr)) return to_rtr(type);
  if (is(QpState::rtr, QpState::rts)) return to_rts(type);
  if (is(QpState::rts, QpState::rts) || is(QpState::sqd, QpState::rts)) return Rule{{}, changeable_at_rts(type)};
  if (is(QpState::rts, QpState::sqd)) return Rule{{}, Bit::en_sqd_async_notify};
  if (is(QpState::sqd, QpState::sqd)) return while_drained(type);
  if (is(QpState::sqe, QpState::rts) && !is_reliable(type)) return Rule{{}, changeable_at_rts(type)};
  return std::nullopt;
}

constexpr auto kNames = std::to_array<std::pair<Bit, const char*>>({
    {Bit::cur_state, "IBV_QP_CUR_STATE"},
    {Bit::en_sqd_async_notify, "IBV_QP_EN_SQD_ASYNC_NOTIFY"},
    {Bit::access_flags, "IBV_QP_ACCESS_FLAGS"},
    {Bit::pkey_index, "IBV_QP_PKEY_INDEX"},
    {Bit::port, "IBV_QP_PORT"},
    {Bit::qkey, "IBV_QP_QKEY"},
    {Bit::av, "IBV_QP_AV"},
    {Bit::path_mtu, "IBV_QP_PATH_MTU"},
    {Bit::timeout, "IBV_QP_TIMEOUT"},
    {Bit::retry_cnt, "IBV_QP_RETRY_CNT"},
    {Bit::rnr_retry, "IBV_QP_RNR_RETRY"},
    {Bit::rq_psn, "IBV_QP_RQ_PSN"},
    {Bit::max_rd_atomic, "IBV_QP_MAX_QP_RD_ATOMIC"},
    {Bit::alt_path, "IBV_QP_ALT_PATH"},
    {Bit::min_rnr_timer, "IBV_QP_MIN_RNR_TIMER"},
    {Bit::sq_psn, "IBV_QP_SQ_PSN"},
    {Bit::max_dest_rd_atomic, "IBV_QP_MAX_DEST_RD_ATOMIC"},
    {Bit::path_mig_state, "IBV_QP_PATH_MIG_STATE"},
    {Bit::cap, "IBV_QP_CAP"},
    {Bit::dest_qpn, "IBV_QP_DEST_QPN"},
});

}  // namespace

const char* name_of(QpState state) {
  constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kStates) ? kStates[index] : "an unknown state";
}

std::string names_of(QpAttrMask mask) {
  std::string out;
  for (const auto& [bit, name] : kNames) {
    if (mask.has(bit)) out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

std::optional<Finding> check_transition(QpType type, QpState from, QpState to, QpAttrMask mask,
                                        const std::string& call) {
  const std::string change = fmt::format("{} from {} to {}", call, name_of(from), name_of(to));
  const auto rule = rule_of(type, from, to);
  if (!rule) return Finding{Misuse::bad_transition, change};
  if (const auto missing = rule->needed.without(mask); !missing.empty()) {
    return Finding{Misuse::missing_attribute, fmt::format("{} lacks {}", change, names_of(missing))};
  }
  // A rate limit is an attribute of later verbs, at any time.
  const auto extra = mask.without(rule->needed | rule->allowed | Bit::state | Bit::rate_limit);
  if (extra.empty()) return std::nullopt;
  return Finding{Misuse::extra_attribute, fmt::format("{} may not have {}", change, names_of(extra))};
}

}  // namespace uroce::validate
