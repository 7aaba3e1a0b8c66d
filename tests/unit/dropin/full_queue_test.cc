// Work queues that are full: a slot is in use until the completion of its request is polled (ibv_create_qp(3): the
// outstanding requests), so that a program may post until ENOMEM.
#include <thread>

#include "pair.h"

namespace uroce::dropin {
namespace {

class FullQueues : public Pair {
 protected:
  static constexpr auto kWhileEnginesWork = 20ms;

  void SetUp() override {
    Pair::SetUp();
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_CAP, &init), 0);
    slots_ = init.cap.max_send_wr;
    receives_ = init.cap.max_recv_wr;
  }
  /// Posts with `post` until it refuses, or has taken `most`. Looks again after the engine has had time to work.
  template <class Post>
  uint32_t fill(Post&& post, uint32_t most) {
    uint32_t posted = 0;
    for (int looks = 0; looks < 3; ++looks) {
      int error = 0;
      while (posted < most && (error = post()) == 0) ++posted;
      if (posted < most) {
        EXPECT_EQ(error, ENOMEM);
      }
      std::this_thread::sleep_for(kWhileEnginesWork);
    }
    return posted;
  }
  uint32_t fill_writes() {
    return fill([this] { return post_write(1, 8); }, 4 * slots_);
  }

  uint32_t slots_ = 0;
  uint32_t receives_ = 0;
};

TEST_F(FullQueues, ASendsSlotIsFreeOnceItsCompletionIsPolled) {
  EXPECT_EQ(fill_writes(), slots_);
  EXPECT_EQ(poll(3).size(), 3u);
  EXPECT_EQ(fill_writes(), 3u);
  EXPECT_EQ(poll(slots_).size(), slots_);
  EXPECT_EQ(fill_writes(), slots_);
}

TEST_F(FullQueues, CompletionsOfOthersTakeNoSlot) {
  ibv_qp* other = create_qp();
  ibv_qp* others_peer = create_qp();
  connect(other, others_peer);
  connect(others_peer, other);
  const auto write = [&] {
    ibv_sge where = sge(0, 8);
    ibv_send_wr wr{};
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()), mr_->rkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(other, &wr, &bad);
  };
  EXPECT_EQ(fill(write, 4 * slots_), slots_);
  EXPECT_EQ(fill_writes(), slots_);
  EXPECT_EQ(ibv_destroy_qp(other), 0);
  EXPECT_EQ(ibv_destroy_qp(others_peer), 0);
}

TEST_F(FullQueues, AnUnsignaledSendsSlotIsFreeOnceItIsDone) {
  ibv_sge where = sge(0, 8);
  ibv_send_wr wr{};
  wr.sg_list = &where;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()), mr_->rkey};
  ibv_send_wr* bad = nullptr;
  uint32_t posted = 0;
  for (const auto until = Clock::now() + 20s; posted < 4 * slots_ && Clock::now() < until;) {
    if (ibv_post_send(qp_[0], &wr, &bad) == 0) ++posted;
  }
  EXPECT_EQ(posted, 4 * slots_);
}

TEST_F(FullQueues, AReceivesSlotIsFreeOnceItsCompletionIsPolled) {
  const auto receive = [this] { return post_recv(qp_[1], 1, 64); };
  EXPECT_EQ(fill(receive, 4 * receives_), receives_);
  for (uint32_t i = 0; i < receives_; ++i) ASSERT_EQ(post_send(qp_[0], 2, 8, 0), 0);
  EXPECT_EQ(fill(receive, 4 * receives_), 0u);
  EXPECT_EQ(poll(3).size(), 3u);
  EXPECT_EQ(fill(receive, 4 * receives_), 3u);
}

// ibv_wr_post(3): a list is posted as a whole.
TEST_F(FullQueues, AListThatDoesNotFitPostsNothing) {
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
  EXPECT_EQ(post(slots_ + 1), ENOMEM);
  std::this_thread::sleep_for(kWhileEnginesWork);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  EXPECT_EQ(post(slots_), 0);
  EXPECT_EQ(poll(slots_).size(), slots_);
}

}  // namespace
}  // namespace uroce::dropin
