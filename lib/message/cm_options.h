// Options of an rdma_cm id (rdma_set_option(3)).
#pragma once

#include <cstdint>

namespace uroce::message {

enum class CmOption : uint8_t {
  type_of_service = 0,  ///< of the id's packets
  reuse_address = 1,    ///< 0 or 1
  af_only = 2,          ///< 0 or 1: IPv6 alone
  ack_timeout = 3,      ///< code: 4.096 us * 2^n
};

}  // namespace uroce::message
