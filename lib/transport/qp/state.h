// Queue pair states: which transitions exist, which attributes each needs and takes, and which values are valid
// (IBTA vol. 1, 10.3.1 and table 91; ibv_modify_qp(3)). Pure functions; any thread.
#pragma once

#include <span>
#include <string_view>

#include <uroce/error.h>
#include <uroce/types.h>

namespace uroce::transport {

/// "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"; "?" for other values.
std::string_view name(QpState state);
/// "RC", "UC", "UD", "RAW_PACKET", "XRC_INI", "XRC_TGT"; "?" for other values.
std::string_view name(QpType type);
/// The attribute's name as in QpAttrBit, e.g. "rq_psn"; "unknown" for other values.
std::string_view name(QpAttrBit attribute);

/// May a QP of `type` go from `from` to `to` with exactly the attributes of `mask`? A modify without
/// QpAttrBit::state is the transition from the present state to itself.
/// Errors: EINVAL: no such transition, or the first attribute that is missing or forbidden, by name.
Result<void> check_transition(QpType type, QpState from, QpState to, QpAttrMask mask);

/// The limits that the values of a modify are checked against.
struct AttrLimits {
  Mtu max_path_mtu = Mtu::mtu4096;  ///< what the port carries
  std::span<const Gid> gids{};      ///< the port's GID table
};

enum class Groups { refused, allowed };
/// Checks an address vector, called `what` in errors; `groups`: whether its dgid may be a multicast one.
/// Errors: EINVAL naming member, value and limit.
Result<void> check_address(const AddressVector& vector, const AttrLimits& limits, std::string_view what, Groups groups);

/// Checks the values of the attributes that `mask` names; the others are not looked at.
/// Errors: EINVAL naming attribute, value and limit; EOPNOTSUPP for an alternate path.
Result<void> check_values(QpType type, const QpAttr& attr, QpAttrMask mask, const AttrLimits& limits);

}  // namespace uroce::transport
