// The encoding of the public API's structures.
#pragma once

#include <uroce/cm_types.h>
#include <uroce/flow.h>
#include <uroce/types.h>
#include <uroce/verbs/device.h>

#include "message/codec.h"

namespace uroce::message {

template <>
struct Fields<Gid> {
  static void visit(auto& self, auto& archive) { archive(self.bytes); }
};

template <>
struct Fields<EthAddr> {
  static void visit(auto& self, auto& archive) { archive(self.bytes); }
};

template <>
struct Fields<DeviceInfo> {
  static void visit(auto& self, auto& archive) {
    archive(self.name, self.driver, self.mac, self.gids, self.kernel_interface, self.active_mtu, self.link_up,
            self.sending, self.engines, self.max_qp, self.max_qp_wr, self.max_cq, self.max_cqe, self.max_mr,
            self.max_mw, self.max_srq, self.max_ah, self.max_pd, self.max_multicast_attach, self.max_flow, self.max_sge,
            self.max_inline, self.max_rd_atomic, self.max_message);
  }
};

template <>
struct Fields<QpCap> {
  static void visit(auto& self, auto& archive) {
    archive(self.max_send_wr, self.max_recv_wr, self.max_send_sge, self.max_recv_sge, self.max_inline_data);
  }
};

template <>
struct Fields<AddressVector> {
  static void visit(auto& self, auto& archive) {
    archive(self.dgid, self.sgid_index, self.hop_limit, self.traffic_class, self.flow_label);
  }
};

template <>
struct Fields<QpAttr> {
  static void visit(auto& self, auto& archive) {
    archive(self.state, self.cur_state, self.path_mtu, self.qkey, self.rq_psn, self.sq_psn, self.dest_qpn, self.access,
            self.cap, self.av, self.pkey_index, self.en_sqd_async_notify, self.max_rd_atomic, self.max_dest_rd_atomic,
            self.min_rnr_timer, self.port, self.timeout, self.retry_cnt, self.rnr_retry, self.rate_limit);
  }
};

template <>
struct Fields<FlowFields> {
  static void visit(auto& self, auto& archive) {
    archive(self.eth_destination, self.eth_source, self.eth_type, self.vlan_tag, self.ip_source, self.ip_destination,
            self.ip_protocol, self.traffic_class, self.hop_limit, self.ipv4_flags, self.flow_label, self.source_port,
            self.destination_port);
  }
};

template <>
struct Fields<FlowRule> {
  static void visit(auto& self, auto& archive) {
    archive(self.type, self.priority, self.layers, self.value, self.mask, self.tag);
  }
};

template <>
struct Fields<FlowCounters> {
  static void visit(auto& self, auto& archive) { archive(self.packets, self.bytes); }
};

template <>
struct Fields<RxHash> {
  static void visit(auto& self, auto& archive) { archive(self.fields, self.key); }
};

template <>
struct Fields<CmAddress> {
  static void visit(auto& self, auto& archive) { archive(self.ip, self.port); }
};

template <>
struct Fields<CmParam> {
  static void visit(auto& self, auto& archive) {
    archive(self.private_data, self.responder_resources, self.initiator_depth, self.flow_control, self.retry_count,
            self.rnr_retry_count, self.srq, self.qpn, self.qkey, self.ece_vendor, self.ece_options);
  }
};

template <>
struct Fields<CmEvent> {
  static void visit(auto& self, auto& archive) {
    archive(self.type, self.id, self.listener, self.status, self.param, self.av, self.join);
    archive.since(24, self.argument);
  }
};

template <>
struct Fields<CmIdInfo> {
  static void visit(auto& self, auto& archive) {
    archive(self.local, self.remote, self.device, self.sgid, self.sgid_index, self.dgid, self.mtu, self.traffic_class,
            self.hop_limit, self.ack_timeout);
  }
};

}  // namespace uroce::message
