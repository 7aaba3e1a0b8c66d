#include "dropin/common/qp_attr.h"

#include <cerrno>
#include <cstring>

#include "dropin/common/foreign_enum.h"
#include "dropin/common/report.h"

namespace uroce::dropin {

int convert(const ibv_ah_attr& from, AddressVector& to) {
  if (from.is_global == 0) {
    return refuse(EINVAL,
                  "the address has no GID (is_global is 0); RoCE needs one: -g 0, for perftest -x 0, for qperf -cm1");
  }
  if (from.port_num > 1) return refuse(EINVAL, "the address names a port other than 1; a device has one port");
  std::memcpy(to.dgid.bytes.data(), from.grh.dgid.raw, to.dgid.bytes.size());
  to.sgid_index = from.grh.sgid_index;
  to.traffic_class = from.grh.traffic_class;
  to.flow_label = from.grh.flow_label & 0xfffff;
  // Programs written for InfiniBand subnets say 0 or 1; the kernel then takes the route's hop limit.
  constexpr uint8_t kDefaultHops = 64;
  to.hop_limit = from.grh.hop_limit > 1 ? from.grh.hop_limit : kDefaultHops;
  return 0;
}

void convert(const AddressVector& from, ibv_ah_attr& to) {
  to = {};
  std::memcpy(to.grh.dgid.raw, from.dgid.bytes.data(), from.dgid.bytes.size());
  to.grh.sgid_index = from.sgid_index;
  to.grh.traffic_class = from.traffic_class;
  to.grh.flow_label = from.flow_label;
  to.grh.hop_limit = from.hop_limit;
  to.is_global = 1;
  to.port_num = 1;
}

QpCap convert(const ibv_qp_cap& from) {
  return {from.max_send_wr, from.max_recv_wr, from.max_send_sge, from.max_recv_sge, from.max_inline_data};
}

ibv_qp_cap convert(const QpCap& from) {
  return {from.max_send_wr, from.max_recv_wr, from.max_send_sge, from.max_recv_sge, from.max_inline_data};
}

int convert(const ibv_qp_attr& from, int mask, QpAttr& to) {
  if ((mask & IBV_QP_ALT_PATH) != 0) return refuse(EOPNOTSUPP, "ibv_modify_qp(): alternate paths are not offered");
  if ((mask & IBV_QP_AV) != 0) {
    if (const int error = convert(from.ah_attr, to.av); error != 0) return error;
  }
  to.state = to_api<QpState>(number_of(from.qp_state));
  to.cur_state = to_api<QpState>(number_of(from.cur_qp_state));
  to.path_mtu = to_api<Mtu>(number_of(from.path_mtu));
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qpn = from.dest_qp_num;
  // Regions are on demand, not queue pairs; programs pass one set of flags to both.
  to.access = AccessFlags::from_bits(from.qp_access_flags & ~unsigned{IBV_ACCESS_ON_DEMAND});
  to.cap = convert(from.cap);
  to.pkey_index = from.pkey_index;
  to.en_sqd_async_notify = from.en_sqd_async_notify != 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port = from.port_num;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rate_limit = from.rate_limit;
  return 0;
}

void convert(const QpAttr& from, ibv_qp_attr& to) {
  to = {};
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = to.qp_state;
  to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qpn;
  to.qp_access_flags = from.access.bits();
  to.cap = convert(from.cap);
  convert(from.av, to.ah_attr);
  to.pkey_index = from.pkey_index;
  to.en_sqd_async_notify = from.en_sqd_async_notify ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rate_limit = from.rate_limit;
}

}  // namespace uroce::dropin
