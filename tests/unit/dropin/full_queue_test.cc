// A list of work requests that does not fit into its queue.
#include <thread>

#include "pair.h"

namespace uroce::dropin {
namespace {

// ibv_wr_post(3): a list is posted as a whole.
TEST_F(Pair, AListThatDoesNotFitPostsNothing) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_CAP, &init), 0);
  const uint32_t slots = init.cap.max_send_wr;
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(qp_[0]);
  const auto post = [&](uint32_t count) {
    ibv_wr_start(qp);
    for (uint32_t i = 0; i < count; ++i) {
      qp->wr_id = i;
      qp->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(qp, mr_->rkey, reinterpret_cast<uint64_t>(memory_.data()));
      ibv_wr_set_sge(qp, mr_->lkey, reinterpret_cast<uint64_t>(memory_.data()), 8);
    }
    return ibv_wr_complete(qp);
  };
  EXPECT_EQ(post(slots + 1), ENOMEM);
  std::this_thread::sleep_for(20ms);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  EXPECT_EQ(post(slots), 0);
  EXPECT_EQ(poll(slots).size(), slots);
}

}  // namespace
}  // namespace uroce::dropin
