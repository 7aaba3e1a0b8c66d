// Two raw packet queue pairs of one device, and a rule for UDP over IPv4.
#pragma once

#include <net/ethernet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "pair.h"

namespace uroce::dropin {

struct UdpRule {
  ibv_flow_attr attr{};
  ibv_flow_spec_eth eth{};
  ibv_flow_spec_ipv4_ext ip{};
  ibv_flow_spec_tcp_udp udp{};
};
static_assert(offsetof(UdpRule, eth) == sizeof(ibv_flow_attr), "specifications follow the attributes at once");

class FlowPair : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    for (ibv_qp*& qp : raw_) qp = make_raw();
    ASSERT_NE(raw_[0], nullptr);
    ASSERT_NE(raw_[1], nullptr);
    rule_.attr = {.comp_mask = 0,
                  .type = IBV_FLOW_ATTR_NORMAL,
                  .size = sizeof(UdpRule),
                  .priority = 0,
                  .num_of_specs = 3,
                  .port = 1,
                  .flags = 0};
    rule_.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof rule_.eth, .val = {}, .mask = {}};
    rule_.eth.val.ether_type = htons(ETHERTYPE_IP);
    rule_.eth.mask.ether_type = 0xffff;
    rule_.ip = {.type = IBV_FLOW_SPEC_IPV4_EXT, .size = sizeof rule_.ip, .val = {}, .mask = {}};
    rule_.ip.val.dst_ip = htonl(0x02020202);
    rule_.ip.mask.dst_ip = 0xffffffff;
    rule_.udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof rule_.udp, .val = {}, .mask = {}};
    rule_.udp.val.dst_port = htons(5678);
    rule_.udp.mask.dst_port = 0xffff;
  }
  void TearDown() override {
    for (ibv_qp* qp : raw_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    Pair::TearDown();
  }
  ibv_qp* make_raw() { return make_raw(cq_); }
  ibv_qp* make_raw(ibv_cq* recv_cq) {
    ibv_qp_init_attr init{};
    init.send_cq = cq_;
    init.recv_cq = recv_cq;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RAW_PACKET;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) return nullptr;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
    attr.qp_state = IBV_QPS_RTR;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    return qp;
  }
  ibv_flow* create() { return ibv_create_flow(raw_[1], &rule_.attr); }
  void expect_refused(int error) {
    errno = 0;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, error);
  }
  /// rule_ with one more specification. They follow each other without gaps, as no structure would have them.
  template <class Spec>
  ibv_flow* create_with(ibv_qp* qp, const Spec& spec) {
    rule_.attr.num_of_specs = 4;
    std::vector<std::byte> bytes(sizeof rule_ + sizeof spec);
    std::memcpy(bytes.data(), &rule_, sizeof rule_);
    std::memcpy(&bytes[sizeof rule_], &spec, sizeof spec);
    return ibv_create_flow(qp, reinterpret_cast<ibv_flow_attr*>(bytes.data()));
  }
  /// A UDP frame at the beginning of memory_, to a group, so that it stays on the device as well.
  void write_frame(uint16_t port) {
    auto* at = reinterpret_cast<uint8_t*>(memory_.data());
    std::memset(at, 0, 60);
    at[0] = 1;
    at[12] = 8;
    at[14] = 0x45;
    at[23] = IPPROTO_UDP;
    std::memset(at + 30, 2, 4);
    at[36] = static_cast<uint8_t>(port >> 8);
    at[37] = static_cast<uint8_t>(port);
  }
  int send(uint32_t bytes) {
    ibv_sge from{reinterpret_cast<uint64_t>(memory_.data()), bytes, mr_->lkey};
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(raw_[0], &wr, &bad);
  }

  ibv_qp* raw_[2]{};
  UdpRule rule_;
};

}  // namespace uroce::dropin
