#include "transport/qp/state.h"

#include <array>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "base/access_flags.h"

namespace uroce::transport {
namespace {

struct Transition {
  QpType type;
  QpState from;
  QpState to;
  QpAttrMask required;
  QpAttrMask optional;
};

using enum QpAttrBit;
using enum QpType;

constexpr QpAttrMask kNone{};
constexpr QpAttrMask kConnection = pkey_index | port | access_flags;
constexpr QpAttrMask kDatagram = pkey_index | port | qkey;
constexpr QpAttrMask kPeer = av | path_mtu | dest_qpn | rq_psn;
constexpr QpAttrMask kUcSending = cur_state | access_flags | alt_path | path_mig_state;
constexpr QpAttrMask kResponding = kUcSending | min_rnr_timer;
constexpr QpAttrMask kRcSending = kResponding | rate_limit;
// An XRC initiator has the requester's attributes of RC, and a target those of the responder (annex A14).
constexpr QpAttrMask kTimers = timeout | retry_cnt | rnr_retry;
constexpr QpAttrMask kDrained = port | av | timeout | alt_path | access_flags | pkey_index | path_mig_state;

// IBTA vol. 1, table 91; rate_limit as Linux has it, and raw packet queue pairs as ibv_modify_qp(3) has them. find()
// adds "any state to RESET" and "any state to ERROR", which take no attributes.
constexpr std::array kTransitions = {
    Transition{rc, QpState::reset, QpState::init, kConnection, kNone},
    Transition{uc, QpState::reset, QpState::init, kConnection, kNone},
    Transition{ud, QpState::reset, QpState::init, kDatagram, kNone},
    Transition{xrc_initiator, QpState::reset, QpState::init, kConnection, kNone},
    Transition{xrc_target, QpState::reset, QpState::init, kConnection, kNone},
    Transition{raw_packet, QpState::reset, QpState::init, port, kNone},

    Transition{rc, QpState::init, QpState::init, kNone, kConnection},
    Transition{uc, QpState::init, QpState::init, kNone, kConnection},
    Transition{ud, QpState::init, QpState::init, kNone, kDatagram},
    Transition{xrc_initiator, QpState::init, QpState::init, kNone, kConnection},
    Transition{xrc_target, QpState::init, QpState::init, kNone, kConnection},
    Transition{raw_packet, QpState::init, QpState::init, kNone, port},

    Transition{rc, QpState::init, QpState::rtr, kPeer | max_dest_rd_atomic | min_rnr_timer,
               alt_path | access_flags | pkey_index},
    Transition{uc, QpState::init, QpState::rtr, kPeer, alt_path | access_flags | pkey_index},
    Transition{ud, QpState::init, QpState::rtr, kNone, pkey_index | qkey},
    Transition{xrc_initiator, QpState::init, QpState::rtr, kPeer, alt_path | access_flags | pkey_index},
    Transition{xrc_target, QpState::init, QpState::rtr, kPeer | max_dest_rd_atomic | min_rnr_timer,
               alt_path | access_flags | pkey_index},
    Transition{raw_packet, QpState::init, QpState::rtr, kNone, kNone},

    Transition{rc, QpState::rtr, QpState::rts, timeout | retry_cnt | rnr_retry | sq_psn | max_rd_atomic, kRcSending},
    Transition{uc, QpState::rtr, QpState::rts, sq_psn, kUcSending},
    Transition{ud, QpState::rtr, QpState::rts, sq_psn, cur_state | qkey},
    Transition{xrc_initiator, QpState::rtr, QpState::rts, kTimers | sq_psn | max_rd_atomic, kUcSending},
    Transition{xrc_target, QpState::rtr, QpState::rts, timeout | sq_psn, kResponding},
    Transition{raw_packet, QpState::rtr, QpState::rts, kNone, cur_state},

    Transition{rc, QpState::rts, QpState::rts, kNone, kRcSending},
    Transition{uc, QpState::rts, QpState::rts, kNone, kUcSending},
    Transition{ud, QpState::rts, QpState::rts, kNone, cur_state | qkey},
    Transition{xrc_initiator, QpState::rts, QpState::rts, kNone, kUcSending},
    Transition{xrc_target, QpState::rts, QpState::rts, kNone, kResponding},
    Transition{raw_packet, QpState::rts, QpState::rts, kNone, cur_state},

    Transition{rc, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},
    Transition{uc, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},
    Transition{ud, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},
    Transition{xrc_initiator, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},
    Transition{xrc_target, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},
    Transition{raw_packet, QpState::rts, QpState::sqd, kNone, en_sqd_async_notify},

    Transition{rc, QpState::sqd, QpState::sqd, kNone,
               port | av | timeout | retry_cnt | rnr_retry | max_rd_atomic | max_dest_rd_atomic | alt_path |
                   access_flags | pkey_index | min_rnr_timer | path_mig_state | rate_limit},
    Transition{uc, QpState::sqd, QpState::sqd, kNone, av | alt_path | access_flags | pkey_index | path_mig_state},
    Transition{ud, QpState::sqd, QpState::sqd, kNone, pkey_index | qkey},
    Transition{xrc_initiator, QpState::sqd, QpState::sqd, kNone, kDrained | kTimers | max_rd_atomic},
    Transition{xrc_target, QpState::sqd, QpState::sqd, kNone, kDrained | max_dest_rd_atomic | min_rnr_timer},
    Transition{raw_packet, QpState::sqd, QpState::sqd, kNone, kNone},

    Transition{rc, QpState::sqd, QpState::rts, kNone, kRcSending},
    Transition{uc, QpState::sqd, QpState::rts, kNone, kUcSending},
    Transition{ud, QpState::sqd, QpState::rts, kNone, cur_state | qkey},
    Transition{xrc_initiator, QpState::sqd, QpState::rts, kNone, kUcSending},
    Transition{xrc_target, QpState::sqd, QpState::rts, kNone, kResponding},
    Transition{raw_packet, QpState::sqd, QpState::rts, kNone, cur_state},

    // RC has no SQE state (IBTA vol. 1, 10.3.1.6): its send errors go to ERROR.
    Transition{uc, QpState::sqe, QpState::rts, kNone, cur_state | access_flags},
    Transition{ud, QpState::sqe, QpState::rts, kNone, cur_state | qkey},
    Transition{raw_packet, QpState::sqe, QpState::rts, kNone, cur_state},
};

std::optional<Transition> find(QpType type, QpState from, QpState to) {
  const bool known = name(type) != "?" && name(from) != "?";
  if (known && (to == QpState::reset || to == QpState::error)) return Transition{type, from, to, kNone, kNone};
  for (const Transition& transition : kTransitions) {
    if (transition.type == type && transition.from == from && transition.to == to) return transition;
  }
  return std::nullopt;
}

/// The lowest attribute of a set that is not empty.
QpAttrBit first_of(QpAttrMask mask) { return static_cast<QpAttrBit>(mask.bits() & (~mask.bits() + 1)); }

Error refuse_transition(QpType type, QpState from, QpState to) {
  if (name(type) == "?") {
    return {EINVAL,
            fmt::format("unknown QP type {}; it must be RC, UC, UD, XRC or raw packet", static_cast<uint32_t>(type))};
  }
  for (const QpState state : {from, to}) {
    if (name(state) != "?") continue;
    return {EINVAL,
            fmt::format("unknown QP state {}; it must be 0 (RESET) to 6 (ERROR)", static_cast<uint32_t>(state))};
  }
  std::string possible;
  for (uint32_t value = 0; value <= static_cast<uint32_t>(QpState::error); ++value) {
    const auto state = static_cast<QpState>(value);
    if (find(type, from, state)) possible += fmt::format("{}{}", possible.empty() ? "" : ", ", name(state));
  }
  return {EINVAL,
          fmt::format("a QP of type {} cannot go from {} to {} (IBTA vol. 1, table 91); from {} it can go to {}",
                      name(type), name(from), name(to), name(from), possible)};
}

struct Range {
  QpAttrBit attribute;
  uint64_t value;
  uint64_t min;
  uint64_t max;
};

std::optional<Error> check_ranges(QpAttrMask mask, std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    if (!mask.has(range.attribute) || (range.value >= range.min && range.value <= range.max)) continue;
    return Error{EINVAL, fmt::format("attribute {} is {}; it must be {} to {}", name(range.attribute), range.value,
                                     range.min, range.max)};
  }
  return std::nullopt;
}

std::string_view ip_name(const Gid& gid) { return gid.is_ipv4() ? "IPv4" : "IPv6"; }

}  // namespace

std::string_view name(QpState state) {
  static constexpr std::array<std::string_view, 7> kNames = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
  const auto at = static_cast<std::size_t>(state);
  return at < kNames.size() ? kNames[at] : "?";
}

std::string_view name(QpType type) {
  switch (type) {
    case QpType::rc: return "RC";
    case QpType::uc: return "UC";
    case QpType::ud: return "UD";
    case QpType::xrc_initiator: return "XRC_INI";
    case QpType::xrc_target: return "XRC_TGT";
    case QpType::raw_packet: return "RAW_PACKET";
  }
  return "?";
}

std::string_view name(QpAttrBit attribute) {
  static constexpr std::array<std::string_view, 21> kNames = {"state",
                                                              "cur_state",
                                                              "en_sqd_async_notify",
                                                              "access_flags",
                                                              "pkey_index",
                                                              "port",
                                                              "qkey",
                                                              "av",
                                                              "path_mtu",
                                                              "timeout",
                                                              "retry_cnt",
                                                              "rnr_retry",
                                                              "rq_psn",
                                                              "max_rd_atomic",
                                                              "alt_path",
                                                              "min_rnr_timer",
                                                              "sq_psn",
                                                              "max_dest_rd_atomic",
                                                              "path_mig_state",
                                                              "cap",
                                                              "dest_qpn"};
  if (attribute == rate_limit) return "rate_limit";
  for (std::size_t bit = 0; bit < kNames.size(); ++bit) {
    if (static_cast<uint32_t>(attribute) == 1u << bit) return kNames[bit];
  }
  return "unknown";
}

Result<void> check_transition(QpType type, QpState from, QpState to, QpAttrMask mask) {
  const auto transition = find(type, from, to);
  if (!transition) return std::unexpected(refuse_transition(type, from, to));
  const QpAttrMask missing = transition->required.without(mask);
  if (!missing.empty()) {
    return fail(EINVAL,
                fmt::format("a QP of type {} needs attribute {} to go from {} to {}; set it, and its bit in the mask",
                            name(type), name(first_of(missing)), name(from), name(to)));
  }
  const QpAttrMask forbidden = mask.without(transition->required | transition->optional | QpAttrBit::state);
  if (!forbidden.empty()) {
    return fail(EINVAL,
                fmt::format("a QP of type {} does not take attribute {} (bit {:#x}) when it goes from {} to {}; "
                            "leave the bit out of the mask",
                            name(type), name(first_of(forbidden)), static_cast<uint32_t>(first_of(forbidden)),
                            name(from), name(to)));
  }
  return {};
}

Result<void> check_address(const AddressVector& vector, const AttrLimits& limits, std::string_view what,
                           Groups groups) {
  if (vector.sgid_index >= limits.gids.size()) {
    return fail(EINVAL, fmt::format("{} has sgid_index {}, but the port's GID table has {} entries; choose an "
                                    "index from DeviceInfo::gids",
                                    what, vector.sgid_index, limits.gids.size()));
  }
  if (limits.gids[vector.sgid_index] == Gid{}) {
    return fail(
        EINVAL,
        fmt::format("{} has sgid_index {}, but that entry of the port's GID table is empty; choose another index "
                    "from DeviceInfo::gids",
                    what, vector.sgid_index));
  }
  if (vector.dgid == Gid{}) return fail(EINVAL, fmt::format("{} has a zero dgid; give the peer's GID", what));
  if (vector.dgid.is_multicast() && groups == Groups::refused) {
    return fail(EINVAL, fmt::format("{} has a multicast dgid; a connected QP needs a unicast one", what));
  }
  if (vector.dgid.is_ipv4() != limits.gids[vector.sgid_index].is_ipv4()) {
    return fail(EINVAL,
                fmt::format("{} mixes IPv4 and IPv6: dgid is {}, but the GID at sgid_index {} is {}; choose "
                            "an sgid_index of the same kind",
                            what, ip_name(vector.dgid), vector.sgid_index, ip_name(limits.gids[vector.sgid_index])));
  }
  if (vector.flow_label > 0xfffff) {
    return fail(EINVAL, fmt::format("{} has flow_label {:#x}; it must fit into 20 bits", what, vector.flow_label));
  }
  return {};
}

Result<void> check_values(QpType type, const QpAttr& attr, QpAttrMask mask, const AttrLimits& limits) {
  // QP 0 and 1 are the management QPs and 0xffffff is multicast: no connected peer has them.
  const Range ranges[] = {
      {QpAttrBit::state, static_cast<uint64_t>(attr.state), 0, static_cast<uint64_t>(QpState::error)},
      {port, attr.port, 1, 1},
      {pkey_index, attr.pkey_index, 0, 0},
      {path_mtu, static_cast<uint64_t>(attr.path_mtu), 1, 5},
      {timeout, attr.timeout, 0, 31},
      {retry_cnt, attr.retry_cnt, 0, 7},
      {rnr_retry, attr.rnr_retry, 0, 7},
      {min_rnr_timer, attr.min_rnr_timer, 0, 31},
      {rq_psn, attr.rq_psn, 0, 0xffffff},
      {sq_psn, attr.sq_psn, 0, 0xffffff},
      {max_rd_atomic, attr.max_rd_atomic, 0, kMaxRdAtomic},
      {max_dest_rd_atomic, attr.max_dest_rd_atomic, 0, kMaxRdAtomic},
      {dest_qpn, attr.dest_qpn, 2, 0xfffffe},
  };
  if (auto error = check_ranges(mask, ranges)) return std::unexpected(std::move(*error));
  if (mask.has(path_mtu) && attr.path_mtu > limits.max_path_mtu) {
    return fail(EINVAL, fmt::format("attribute path_mtu is {} bytes; this port carries at most {}: raise the port's "
                                    "Ethernet MTU or ask for less",
                                    mtu_bytes(attr.path_mtu), mtu_bytes(limits.max_path_mtu)));
  }
  if (mask.has(rate_limit) && attr.rate_limit != 0 && attr.rate_limit < kMinRateLimit) {
    return fail(EINVAL, fmt::format("attribute rate_limit is {} kbit/s; it must be 0, for no limit, or at least {}",
                                    attr.rate_limit, kMinRateLimit));
  }
  if (mask.has(access_flags) && !attr.access.without(kKnownAccess).empty()) {
    return fail(EINVAL, fmt::format("attribute access_flags has unknown bits {:#x}; the known bits are {:#x}",
                                    attr.access.without(kKnownAccess).bits(), kKnownAccess.bits()));
  }
  if (mask.has(alt_path)) {
    return fail(
        EOPNOTSUPP,
        "attribute alt_path is not supported, because there is no path migration; leave its bit out of the mask");
  }
  if (mask.has(av) && type != QpType::ud) return check_address(attr.av, limits, "attribute av", Groups::refused);
  return {};
}

}  // namespace uroce::transport
