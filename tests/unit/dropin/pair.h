// Two RC queue pairs of one device, joined, through the drop-in library on a stack in this process.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <utility>
#include <vector>

namespace uroce::dropin {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

inline ibv_context* open_first() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) return nullptr;
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  return context;
}

class Pair : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 65536;

  void SetUp() override {
    context_ = open_first();
    ASSERT_NE(context_, nullptr);
    pd_ = ibv_alloc_pd(context_);
    memory_.resize(kBytes);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(),
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, 256, this, channel_, 0);
    for (ibv_qp*& qp : qp_) qp = create_qp();
    connect(qp_[0], qp_[1]);
    connect(qp_[1], qp_[0]);
  }
  void TearDown() override {
    for (ibv_qp* qp : qp_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  ibv_qp* create_qp() {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.cap = {16, 16, 2, 2, 64};
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd_;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;
    return ibv_create_qp_ex(context_, &attr);
  }
  void connect(ibv_qp* qp, const ibv_qp* peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp_num;
    attr.min_rnr_timer = 12;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  /// Another queue pair on cq_, ready to send and receive datagrams.
  ibv_qp* make_datagram_qp(uint32_t qkey) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) return nullptr;
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = qkey;
    for (const auto& [state, mask] : {std::pair(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                                      std::pair(IBV_QPS_RTR, 0), std::pair(IBV_QPS_RTS, int{IBV_QP_SQ_PSN})}) {
      attr.qp_state = state;
      EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask), 0) << state;
    }
    return qp;
  }
  /// An address handle for the device's own GID.
  ibv_ah* make_own_ah(int gid_index = 0) {
    ibv_ah_attr to{};
    to.is_global = to.port_num = 1;
    to.grh.sgid_index = static_cast<uint8_t>(gid_index);
    EXPECT_EQ(ibv_query_gid(context_, 1, gid_index, &to.grh.dgid), 0);
    return ibv_create_ah(pd_, &to);
  }
  int post_datagram(ibv_qp* qp, ibv_ah* ah, uint32_t qpn, uint32_t qkey, unsigned flags) {
    ibv_sge where = sge(0, 8);
    ibv_send_wr wr{};
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.wr.ud = {ah, qpn, qkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }

  ibv_sge sge(std::size_t offset, uint32_t length) const {
    return {reinterpret_cast<uint64_t>(memory_.data()) + offset, length, mr_->lkey};
  }
  int post_recv(ibv_qp* qp, uint64_t id, uint32_t length) {
    ibv_sge where = sge(kBytes / 2, length);
    ibv_recv_wr wr{id, nullptr, &where, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }
  int post_send(ibv_qp* qp, uint64_t id, uint32_t length, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge where = sge(0, length);
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  int post_write(uint64_t id, uint32_t length) {
    ibv_sge where = sge(0, length);
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()), mr_->rkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_[0], &wr, &bad);
  }
  std::vector<ibv_wc> poll(std::size_t count) {
    std::vector<ibv_wc> out(count);
    std::size_t got = 0;
    const auto until = Clock::now() + 20s;
    while (got < count && Clock::now() < until) {
      const int n = ibv_poll_cq(cq_, static_cast<int>(count - got), out.data() + got);
      if (n < 0) break;
      got += static_cast<std::size_t>(n);
    }
    out.resize(got);
    return out;
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_[2] = {};
  std::vector<char> memory_;
};

}  // namespace uroce::dropin
