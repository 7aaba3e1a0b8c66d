// Objects that were destroyed, or whose public handle was changed: the kernel answers ENOENT where they are to be
// destroyed, EINVAL where they are to be used.
#include <cerrno>
#include <functional>

#include "pair.h"

namespace uroce::dropin {
namespace {

class DeadObjects : public Pair {
 protected:
  static void expect(int code, const std::function<int()>& call) {
    errno = 0;
    EXPECT_EQ(call(), code);
    EXPECT_EQ(errno, code);
  }
  static void expect_null(const std::function<void*()>& call) {
    errno = 0;
    EXPECT_EQ(call(), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.cap = {1, 1, 1, 1, 0};
    attr.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd, &attr);
  }
  ibv_srq* make_srq(ibv_pd* pd) {
    ibv_srq_init_attr init{};
    init.attr = {4, 1, 0};
    return ibv_create_srq(pd, &init);
  }
};

TEST_F(DeadObjects, ProtectionDomain) {
  ibv_pd* pd = ibv_alloc_pd(context_);
  pd->handle += 1000;
  expect(ENOENT, [&] { return ibv_dealloc_pd(pd); });
  expect_null([&] { return ibv_reg_mr(pd, memory_.data(), 8, 0); });
  expect_null([&] { return make_qp(pd, cq_); });
  expect_null([&] { return make_srq(pd); });
  expect_null([&] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); });
  pd->handle -= 1000;
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  expect(ENOENT, [&] { return ibv_dealloc_pd(pd); });
  expect_null([&] { return ibv_reg_mr(pd, memory_.data(), 8, 0); });
}

TEST_F(DeadObjects, MemoryRegionAndWindow) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), 64, IBV_ACCESS_LOCAL_WRITE);
  mr->handle += 1000;
  expect(ENOENT, [&] { return ibv_dereg_mr(mr); });
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  mr->handle -= 1000;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  expect(ENOENT, [&] { return ibv_dereg_mr(mr); });
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  mw->handle += 1000;
  expect(ENOENT, [&] { return ibv_dealloc_mw(mw); });
  mw->handle -= 1000;
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);  // not twice: the header's inline function reads the window before it calls
}

TEST_F(DeadObjects, CompletionQueueAndChannel) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  cq->handle += 1000;
  expect(ENOENT, [&] { return ibv_destroy_cq(cq); });
  expect(EINVAL, [&] { return ibv_resize_cq(cq, 8); });
  expect_null([&] { return make_qp(pd_, cq); });
  cq->handle -= 1000;
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  expect(ENOENT, [&] { return ibv_destroy_cq(cq); });
  expect_null([&] { return make_qp(pd_, cq); });
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  expect(EINVAL, [&] { return ibv_destroy_comp_channel(channel); });
  expect_null([&] { return ibv_create_cq(context_, 4, nullptr, channel, 0); });
}

TEST_F(DeadObjects, SharedReceiveQueue) {
  ibv_srq* srq = make_srq(pd_);
  ibv_srq_attr attr{};
  srq->handle += 1000;
  expect(ENOENT, [&] { return ibv_destroy_srq(srq); });
  expect(EINVAL, [&] { return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT); });
  expect(EINVAL, [&] { return ibv_query_srq(srq, &attr); });
  expect_null([&] { return make_qp(pd_, cq_, srq); });
  srq->handle -= 1000;
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  expect(ENOENT, [&] { return ibv_destroy_srq(srq); });
}

TEST_F(DeadObjects, QueuePair) {
  ibv_qp* qp = make_qp(pd_, cq_);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  qp->handle += 1000;
  expect(ENOENT, [&] { return ibv_destroy_qp(qp); });
  expect(EINVAL, [&] { return ibv_modify_qp(qp, &attr, IBV_QP_STATE); });
  expect(EINVAL, [&] { return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); });
  qp->handle -= 1000;
  qp->qp_num += 7;  // a program's own copy: the device knows its number
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  expect(ENOENT, [&] { return ibv_destroy_qp(qp); });
}

TEST_F(DeadObjects, AddressHandle) {
  ibv_ah* ah = make_own_ah();
  ASSERT_NE(ah, nullptr);
  ah->handle += 1000;
  expect(ENOENT, [&] { return ibv_destroy_ah(ah); });
  ah->handle -= 1000;
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  expect(ENOENT, [&] { return ibv_destroy_ah(ah); });
}

// The kernel looks for the handle in the context that the object names.
TEST_F(DeadObjects, OfAnotherContext) {
  ibv_context* other = open_first();
  ibv_pd* pd = ibv_alloc_pd(context_);
  ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  ibv_qp* qp = make_qp(pd, cq);
  ibv_mr* mr = ibv_reg_mr(pd, memory_.data(), 64, 0);
  const auto exchange = [&](ibv_context* context) { pd->context = cq->context = qp->context = mr->context = context; };
  exchange(other);
  expect(ENOENT, [&] { return ibv_dereg_mr(mr); });
  expect(ENOENT, [&] { return ibv_destroy_qp(qp); });
  expect(ENOENT, [&] { return ibv_destroy_cq(cq); });
  expect(ENOENT, [&] { return ibv_dealloc_pd(pd); });
  expect_null([&] { return ibv_reg_mr(pd, memory_.data(), 64, 0); });
  expect_null([&] { return make_qp(pd_, cq); });
  exchange(context_);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

}  // namespace
}  // namespace uroce::dropin
