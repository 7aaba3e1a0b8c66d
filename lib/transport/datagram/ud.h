// Unreliable datagrams: one packet each, to the destination that the work request names (IBTA vol. 1, 9.8.3).
#pragma once

#include "base/qkey.h"
#include "transport/core/context.h"
#include "transport/datagram/address_handles.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends the cursor's datagram. False: the slot's status says why not.
bool send_datagram(Context& ctx, Qp& qp, SendSlot& slot);
template <Steps kSteps>
Outcome on_datagram(Context& ctx, Qp& qp, const wire::Packet& packet);

/// The Q_Key to send (IBTA vol. 1, 10.2.5). If the work request's Q_Key has the high bit set, the QP's Q_Key is sent
/// instead. So only a program that may set a QP's Q_Key can send a controlled one.
inline uint32_t qkey_to_send(const Qp& qp, uint32_t asked) {
  return (asked & kControlledQkey) != 0 ? qp.cold->attr.qkey : asked;
}
/// Where a datagram to that handle and QPN goes.
inline FrameBuilder::Destination destination_of(const Qp& qp, const AddressHandle& handle, uint32_t qpn) {
  return {.route = handle.route,
          .qpn = qpn,
          .udp_source = wire::udp_source_port(handle.flow_label, qp.qpn, qpn),
          .pkey = qp.pkey,
          .loopback = handle.loopback};
}

}  // namespace uroce::transport
