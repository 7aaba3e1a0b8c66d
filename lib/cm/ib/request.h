// The contents of a connection's first messages: where they go, a REQ, and a REP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <uroce/types.h>

namespace uroce::cm {

/// The path of a connection's MADs and packets. A REQ carries its `ack_timeout` and `mtu`.
struct CmPath {
  Gid sgid{};  ///< ours
  Gid dgid{};  ///< the peer's
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  ///< 20 bits
  Mtu mtu = Mtu::mtu1024;
  uint8_t ack_timeout = 18;  ///< 5 bits, 4.096 us * 2^n: the local ACK timeout that the peer's QP shall use
};

/// The contents of a REQ (12.6.5), from its sender's point of view: its `initiator_depth` limits the receiver's
/// responder resources, and the other way round. With `type` ud, the contents of a SIDR_REQ: only service, P_Key and
/// private data. With `type` xrc_initiator, what the initiator of an extended reliable connection sends, and xrc_target
/// what the other side receives (annex A14): without responder resources, retry counts and `srq`.
struct CmRequest {
  uint64_t service_id = 0;
  QpType type = QpType::rc;
  CmPath path{};
  uint32_t qpn = 0;  ///< the sender's queue pair
  uint32_t psn = 0;  ///< the first PSN that the receiver of the REQ sends
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  uint8_t max_cm_retries = 15;     ///< 4 bits
  uint8_t remote_cm_timeout = 20;  ///< 5 bits: the receiver must answer within this time
  uint8_t local_cm_timeout = 20;   ///< 5 bits: the sender answers within this time
  bool flow_control = true;        ///< end-to-end credits
  bool srq = false;
  uint16_t pkey = 0xffff;
  uint32_t ece_vendor = 0;                ///< 24 bits; enhanced connection establishment, 0 for none
  uint32_t ece_options = 0;               ///< that vendor's options
  std::vector<std::byte> private_data{};  ///< at most kReqPrivate or kSidrReqPrivate bytes; received: the whole field
};

/// The contents of a REP (12.6.8). With UD, the contents of a SIDR_REP: only status, qpn, qkey and private data. To an
/// XRC initiator: without initiator depth and flow control, and `srq` is true.
struct CmReply {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint32_t qkey = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 7;
  uint8_t ack_delay = 15;  ///< target ACK delay, 5 bits
  bool flow_control = true;
  bool srq = false;
  uint8_t sidr_status = 0;  ///< SIDR_REP (12.11.2): 0 valid, 1 service id not supported, 2 rejected, 3 no QP
  uint32_t ece_vendor = 0;  ///< as in CmRequest
  uint32_t ece_options = 0;
  std::vector<std::byte> private_data{};
};

}  // namespace uroce::cm
