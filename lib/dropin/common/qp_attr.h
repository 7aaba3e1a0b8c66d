// Attributes of queue pairs and addresses, between the API's form and that of verbs.h.
#pragma once

#include <infiniband/verbs.h>

#include <uroce/types.h>

namespace uroce::dropin {

/// 0, or EINVAL: an address of RoCE needs a GID (IBTA annex A17), and a device has one port.
int convert(const ibv_ah_attr& from, AddressVector& to);
void convert(const AddressVector& from, ibv_ah_attr& to);

QpCap convert(const ibv_qp_cap& from);
ibv_qp_cap convert(const QpCap& from);

/// 0, or an errno value: EINVAL (address), EOPNOTSUPP (alternate paths).
int convert(const ibv_qp_attr& from, int mask, QpAttr& to);
void convert(const QpAttr& from, ibv_qp_attr& to);

}  // namespace uroce::dropin
