// Memory regions through the drop-in library, as providers of kernel devices treat them.
#include <cerrno>

#include "pair.h"

namespace uroce::dropin {
namespace {

class Regions : public Pair {
 protected:
  static constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

  ibv_wc_status run(ibv_wr_opcode opcode, const ibv_sge& where, uint64_t remote, uint32_t rkey) {
    ibv_sge list = where;
    ibv_send_wr wr{};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {remote, rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
    const auto done = poll(1);
    return done.size() == 1 ? done[0].status : IBV_WC_GENERAL_ERR;
  }
};

TEST_F(Regions, OfNoBytesServeMessagesOfNoBytes) {
  for (void* at : {static_cast<void*>(memory_.data() + 3), static_cast<void*>(nullptr)}) {
    ibv_mr* mr = ibv_reg_mr(pd_, at, 0, kAll);
    ASSERT_NE(mr, nullptr) << errno;
    EXPECT_EQ(mr->length, 0u);
    const ibv_sge nothing{reinterpret_cast<uint64_t>(at), 0, mr->lkey};
    EXPECT_EQ(run(IBV_WR_RDMA_WRITE, nothing, reinterpret_cast<uint64_t>(at), mr->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(run(IBV_WR_RDMA_READ, nothing, reinterpret_cast<uint64_t>(at), mr->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

TEST_F(Regions, OfNoBytesHoldNone) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), 0, kAll);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, sge(0, 1), reinterpret_cast<uint64_t>(memory_.data()), mr->rkey),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, ReregisteringTellsWhoRefuses) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), 4096, kAll);
  ASSERT_NE(mr, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(mr, 1 << 10, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  errno = 0;
  // Remote write needs local write: the device says so.
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 1 << 15), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, sge(8192, 8), reinterpret_cast<uint64_t>(memory_.data()), mr->rkey), IBV_WC_SUCCESS)
      << "the region is as before";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace uroce::dropin
