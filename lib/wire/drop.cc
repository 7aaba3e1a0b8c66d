#include "wire/drop.h"

#include <array>

namespace uroce::wire {
namespace {

constexpr std::array<std::string_view, kDropCount> kNames = {
    "none",
    "truncated",
    "not_roce",
    "ip_header_invalid",
    "ip_fragment",
    "ip_length",
    "vlan_mismatch",
    "bth_version",
    "opcode_unknown",
    "opcode_mismatch",
    "payload_length",
    "icrc",
    "pkey",
    "address_not_ours",
    "source_not_peer",
    "peer_not_allowed",
    "qp_unknown",
    "qp_state",
    "qkey",
    "psn_duplicate",
    "psn_out_of_order",
    "response_stale",
    "response_unexpected",
    "resources_gone",
    "recv_queue_empty",
    "message_broken",
    "hello_invalid",
    "sack_invalid",
    "seal",
    "parking_full",
    "remote_access",
    "port_down",
};
static_assert(!kNames.back().empty(), "every drop reason has a name");

}  // namespace

std::string_view name(Drop drop) {
  const auto index = static_cast<std::size_t>(drop);
  return index < kNames.size() ? kNames[index] : "invalid";
}

}  // namespace uroce::wire
