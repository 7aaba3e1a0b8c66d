// The result of a work request. A plain value; any thread may copy it.
#pragma once

#include <cstdint>

#include <uroce/types.h>

namespace uroce {

/// One completion (ibv_poll_cq(3)).
struct Completion {
  uint64_t wr_id = 0;  ///< as posted
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;  ///< valid only when `status` is success
  uint32_t byte_len = 0;             ///< receives and READs: bytes written to memory
  uint32_t imm_or_key = 0;           ///< immediate data in host order, or the invalidated rkey; `flags` tells which
  uint32_t qpn = 0;                  ///< this side's QP
  uint32_t src_qpn = 0;              ///< UD: the sender's QP
  WcFlags flags{};
  uint32_t vendor_error = 0;  ///< the engine's own reason for an error, or 0
  uint64_t timestamp_ns = 0;  ///< when the completion was written; see Context::clock_ns()
  uint32_t flow_tag = 0;      ///< raw packets: FlowRule::tag of the rule that gave the frame
  /// Raw packets, UD: the received frame's 802.1Q tag (priority 3 bits, DEI 1 bit, VLAN id 12 bits); 0 without one.
  uint16_t vlan_tag = 0;
};

}  // namespace uroce
