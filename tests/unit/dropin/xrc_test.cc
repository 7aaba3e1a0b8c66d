// XRC through the drop-in library (ibv_open_xrcd(3), ibv_open_qp(3)).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pair.h"

namespace uroce::dropin {
namespace {

class Xrc : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    xrcd_ = open(-1, O_CREAT);
    ASSERT_NE(xrcd_, nullptr);
    srq_ = create_srq();
    ASSERT_NE(srq_, nullptr);
    target_ = create_target();
    ASSERT_NE(target_, nullptr);
    initiator_ = create_initiator(0);
    ASSERT_NE(initiator_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(initiator_), 0);
    EXPECT_EQ(ibv_destroy_qp(target_), 0);
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    Pair::TearDown();
  }
  ibv_xrcd* open(int fd, int oflags) {
    ibv_xrcd_init_attr attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, fd, oflags};
    return ibv_open_xrcd(context_, &attr);
  }
  ibv_srq* create_srq() {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {4, 1, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd_;
    attr.xrcd = xrcd_;
    attr.cq = cq_;
    return ibv_create_srq_ex(context_, &attr);
  }
  ibv_qp* create_target() {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd_;
    return ibv_create_qp_ex(context_, &attr);
  }
  ibv_qp* create_initiator(uint64_t operations) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_SEND;
    attr.send_cq = cq_;
    attr.cap = {16, 0, 1, 0, 64};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (operations != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = operations;
    attr.pd = pd_;
    return ibv_create_qp_ex(context_, &attr);
  }
  /// As ibv_xsrq_pingpong brings its queue pairs to RTS.
  void connect(ibv_qp* initiator, ibv_qp* target) {
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(ibv_modify_qp(initiator, &attr, kInit), 0);
    ASSERT_EQ(ibv_modify_qp(target, &attr, kInit), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ASSERT_EQ(ibv_query_gid(context_, 1, 0, &attr.ah_attr.grh.dgid), 0);
    attr.dest_qp_num = initiator->qp_num;
    ASSERT_EQ(ibv_modify_qp(target, &attr, kRtr | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
    attr.dest_qp_num = target->qp_num;
    // Attributes of the other half are ignored.
    ASSERT_EQ(ibv_modify_qp(initiator, &attr, kRtr | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    ASSERT_EQ(ibv_modify_qp(target, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN), 0);
    ASSERT_EQ(ibv_modify_qp(initiator, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  void post_receive(uint64_t id) {
    ibv_sge where{reinterpret_cast<uint64_t>(memory_.data()) + kBytes / 2, 64, mr_->lkey};
    ibv_recv_wr wr{id, nullptr, &where, 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq_, &wr, &bad), 0);
  }
  uint32_t number() {
    uint32_t out = 0;
    EXPECT_EQ(ibv_get_srq_num(srq_, &out), 0);
    return out;
  }
  void expect_received(uint64_t id, const ibv_qp* target) {
    const auto done = poll(2);
    ASSERT_EQ(done.size(), 2u);
    bool received = false;
    for (const ibv_wc& wc : done) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if (wc.opcode != IBV_WC_RECV) continue;
      received = true;
      EXPECT_EQ(wc.wr_id, id);
      EXPECT_EQ(wc.qp_num, target->qp_num);
    }
    EXPECT_TRUE(received);
  }

  ibv_xrcd* xrcd_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* target_ = nullptr;
  ibv_qp* initiator_ = nullptr;
};

TEST_F(Xrc, TheDeviceHasIt) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_XRC, 0u);
}

TEST_F(Xrc, PostedSendsNameAQueue) {
  connect(initiator_, target_);
  post_receive(7);
  std::strcpy(memory_.data(), "to a queue");
  ibv_sge where{reinterpret_cast<uint64_t>(memory_.data()), 11, mr_->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &where;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.qp_type.xrc.remote_srqn = number();
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(initiator_, &wr, &bad), 0);
  expect_received(7, target_);
  EXPECT_STREQ(memory_.data() + kBytes / 2, "to a queue");
}

TEST_F(Xrc, SendsByCallNameAQueue) {
  ibv_qp* qp = create_initiator(IBV_QP_EX_WITH_SEND);
  ASSERT_NE(qp, nullptr);
  connect(qp, target_);
  post_receive(8);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ASSERT_NE(ex, nullptr);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(ex);
  ibv_wr_set_xrc_srqn(ex, number());
  ibv_wr_set_sge(ex, mr_->lkey, reinterpret_cast<uint64_t>(memory_.data()), 5);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  expect_received(8, target_);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Xrc, ATargetCanBeOpenedByItsNumber) {
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT;
  attr.qp_num = target_->qp_num;
  attr.xrcd = xrcd_;
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.qp_context = this;
  ibv_qp* opened = ibv_open_qp(context_, &attr);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->qp_num, target_->qp_num);
  EXPECT_EQ(opened->qp_context, this);
  connect(initiator_, opened);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(target_, &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(ibv_destroy_qp(opened), 0);
  EXPECT_EQ(ibv_query_qp(target_, &now, IBV_QP_STATE, &init), 0);
  attr.qp_type = IBV_QPT_RC;
  EXPECT_EQ(ibv_open_qp(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.qp_num = initiator_->qp_num;
  EXPECT_EQ(ibv_open_qp(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Xrc, ADomainInUseStays) {
  EXPECT_EQ(ibv_close_xrcd(xrcd_), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
}

TEST_F(Xrc, FlagsOfAnOpen) {
  const int fd = memfd_create("xrc", MFD_CLOEXEC);
  EXPECT_EQ(open(fd, 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  ibv_xrcd* domain = open(fd, O_CREAT | O_EXCL);
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(open(fd, O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* again = open(fd, 0);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_close_xrcd(again), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_EQ(open(fd, 0), nullptr);
  ibv_xrcd_init_attr incomplete{IBV_XRCD_INIT_ATTR_FD, -1, 0};
  EXPECT_EQ(ibv_open_xrcd(context_, &incomplete), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(fd);
}

TEST_F(Xrc, ATargetNeedsADomainAndAQueueAllItsParts) {
  ibv_qp_init_attr plain{};
  plain.send_cq = plain.recv_cq = cq_;
  plain.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_create_qp(pd_, &plain), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr_ex attr{};
  attr.attr = {4, 1, 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = pd_;
  attr.xrcd = xrcd_;
  EXPECT_EQ(ibv_create_srq_ex(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Xrc, ATargetTakesNoWorkRequests) {
  connect(initiator_, target_);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(target_, &wr, &bad), EINVAL);
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(target_, &receive, &bad_receive), EINVAL);
  EXPECT_EQ(ibv_post_recv(initiator_, &receive, &bad_receive), EINVAL);
}

}  // namespace
}  // namespace uroce::dropin
