// Memory windows through the drop-in library: the promises of libibverbs' calls.
#include <cerrno>

#include "pair.h"

namespace uroce::dropin {
namespace {

class Windows : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    bindable_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ASSERT_NE(bindable_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dereg_mr(bindable_), 0);
    Pair::TearDown();
  }
  ibv_mw_bind_info info(uint64_t length = 64, unsigned access = IBV_ACCESS_REMOTE_WRITE) const {
    return {bindable_, reinterpret_cast<uint64_t>(memory_.data()), length, access};
  }
  int post_bind(ibv_mw* mw, uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info();
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_[0], &wr, &bad);
  }

  ibv_mr* bindable_ = nullptr;
};

TEST_F(Windows, TheDeviceReportsThem) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_GT(attr.max_mw, 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0u);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  EXPECT_EQ(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0u);
}

TEST_F(Windows, Type1HasItsOwnCallWhichGivesANewKey) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  ibv_mw_bind bind{7, IBV_SEND_SIGNALED, info()};
  ASSERT_EQ(ibv_bind_mw(qp_[0], mw, &bind), 0);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
  const auto done = poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 7u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[0].opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(post_bind(mw, mw->rkey), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

// Providers take the window from the request, and of the rkey the low 8 bits alone.
TEST_F(Windows, Type2TakesTheLowBitsOfTheRkeyAndTellsTheKeyInForce) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const uint32_t window = mw->rkey & ~0xffu;
  for (const uint32_t rkey : {0x11u, ~window | 0x22u, ibv_inc_rkey(mw->rkey)}) {
    ASSERT_EQ(post_bind(mw, rkey), 0);
    EXPECT_EQ(mw->rkey, window | (rkey & 0xff));
    auto done = poll(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, IBV_WC_SUCCESS) << std::hex << rkey;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = mw->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
    done = poll(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, AListThatIsNotPostedLeavesTheRkey) {
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap = {16, 16, 2, 2, 64};
  attr.qp_type = IBV_QPT_RC;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd_;
  attr.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  connect(qp, qp);
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  const ibv_mw_bind_info where = info();
  const auto bind = [&] {
    extended->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(extended, mw, 0x77, &where);
  };
  ibv_wr_start(extended);
  bind();
  ibv_wr_abort(extended);
  EXPECT_EQ(mw->rkey, before);
  ibv_wr_start(extended);
  bind();
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  EXPECT_EQ(mw->rkey, (before & ~0xffu) | 0x77);
  const auto done = poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Windows, ARegionWithABoundWindowStays) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  ASSERT_EQ(post_bind(mw, ibv_inc_rkey(mw->rkey)), 0);
  ASSERT_EQ(poll(1).size(), 1u);
  EXPECT_EQ(ibv_dereg_mr(bindable_), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Windows, InvalidRequestsAreRefused) {
  EXPECT_EQ(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  ibv_mw_bind bind{7, IBV_SEND_SIGNALED, info(64, 1u << 12)};
  const uint32_t before = mw->rkey;
  EXPECT_EQ(ibv_bind_mw(qp_[0], mw, &bind), EINVAL);
  EXPECT_EQ(post_bind(nullptr, 1), EINVAL);
  EXPECT_EQ(mw->rkey, before);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

}  // namespace
}  // namespace uroce::dropin
