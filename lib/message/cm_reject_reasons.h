// The reasons for rejecting a connection, as a REJ carries them (IBTA vol. 1, 12.6.7.2). The connection manager and
// applications use the same numbers.
#pragma once

#include <cstdint>

namespace uroce::message {

/// A REJ can carry other numbers, too; applications get each number unchanged.
enum class RejReason : uint16_t {
  no_qp = 1,                              ///< no queue pair available
  no_eec = 2,                             ///< no end-to-end context available (reliable datagram)
  no_resources = 3,                       ///< too few resources for the connection
  timeout = 4,                            ///< no reply came in time
  unsupported = 5,                        ///< unsupported request
  invalid_comm_id = 6,                    ///< unknown communication id
  invalid_comm_instance = 7,              ///< ids or QPN of another connection
  invalid_service_id = 8,                 ///< no listener at the service id
  invalid_transport_type = 9,             ///< the service has another transport type
  stale_connection = 10,                  ///< the QPN is still part of an earlier connection
  rdc_does_not_exist = 11,                ///< no such reliable datagram channel
  primary_gid_rejected = 12,              ///< the primary path's remote GID
  primary_lid_rejected = 13,              ///< the primary path's remote LID
  invalid_sl = 14,                        ///< the primary path's service level
  invalid_traffic_class = 15,             ///< the primary path's traffic class
  invalid_hop_limit = 16,                 ///< the primary path's hop limit
  invalid_packet_rate = 17,               ///< the primary path's packet rate
  alternate_gid_rejected = 18,            ///< the alternate path's remote GID
  alternate_lid_rejected = 19,            ///< the alternate path's remote LID
  invalid_alternate_sl = 20,              ///< the alternate path's service level
  invalid_alternate_traffic_class = 21,   ///< the alternate path's traffic class
  invalid_alternate_hop_limit = 22,       ///< the alternate path's hop limit
  invalid_alternate_packet_rate = 23,     ///< the alternate path's packet rate
  port_and_cm_redirection = 24,           ///< another port and connection manager serve the request
  port_redirection = 25,                  ///< another port serves the request
  invalid_path_mtu = 26,                  ///< a path MTU that the receiver does not support
  insufficient_responder_resources = 27,  ///< too few resources for READs and atomics
  consumer_reject = 28,                   ///< by the application, as rdma_reject(3)
  rnr_retry_count_reject = 29,            ///< the RNR retry count
  duplicate_local_comm_id = 30,           ///< the sender already uses its communication id
  invalid_class_version = 31,             ///< the version of the management class
  invalid_flow_label = 32,                ///< the primary path's flow label
  invalid_alternate_flow_label = 33,      ///< the alternate path's flow label
  vendor_option_not_supported = 35,       ///< by the application, as rdma_reject_ece(3)
};

}  // namespace uroce::message
