// The counts that a responder keeps of executed requests.
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

/// The request took `packets` PSNs.
inline void expect_next(Qp& qp, uint32_t packets) {
  qp.rx.expected += packets;
  qp.rx.nak_sent = false;
}

/// C9-148: the MSN counts a message when it is executed. For a READ, too, that is before its response is sent.
inline uint32_t count_message(Qp& qp) { return qp.rx.msn = (qp.rx.msn + 1) & Psn::kMask; }

}  // namespace uroce::transport
