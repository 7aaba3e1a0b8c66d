// Q_Keys of datagrams (IBTA vol. 1, 10.2.5).
#pragma once

#include "base/qkey.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The Q_Key to send. If the work request's Q_Key has the high bit set, the QP's Q_Key is sent instead. So only a
/// program that may set a QP's Q_Key can send a controlled one.
inline uint32_t qkey_to_send(const Qp& qp, uint32_t asked) {
  return (asked & kControlledQkey) != 0 ? qp.cold->attr.qkey : asked;
}

/// Without the right Q_Key a datagram is dropped silently.
inline bool qkey_matches(const Qp& qp, const wire::Packet& packet) { return packet.deth.qkey == qp.cold->attr.qkey; }

}  // namespace uroce::transport
