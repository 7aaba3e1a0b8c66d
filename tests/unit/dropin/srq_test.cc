// Shared receive queues through the drop-in library.
#include <cerrno>
#include <cstring>

#include "pair.h"

namespace uroce::dropin {
namespace {

/// The second queue pair takes its receives from a shared queue of another domain.
class SharedReceives : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    of_srq_ = ibv_alloc_pd(context_);
    in_srq_ = ibv_reg_mr(of_srq_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_srq_init_attr init{};
    init.attr = {4, 1, 0};
    srq_ = ibv_create_srq(of_srq_, &init);
    ASSERT_NE(srq_, nullptr);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.srq = srq_;
    attr.cap = {16, UINT32_MAX, 2, UINT32_MAX, 0};  // those of receives are ignored
    attr.qp_type = IBV_QPT_RC;
    receiver_ = ibv_create_qp(pd_, &attr);
    ASSERT_NE(receiver_, nullptr);
    EXPECT_EQ(attr.cap.max_recv_wr, 0u);
    sender_ = create_qp();
    connect(receiver_, sender_);
    connect(sender_, receiver_);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_qp(sender_), 0);
    EXPECT_EQ(ibv_destroy_qp(receiver_), 0);
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    EXPECT_EQ(ibv_dereg_mr(in_srq_), 0);
    EXPECT_EQ(ibv_dealloc_pd(of_srq_), 0);
    Pair::TearDown();
  }
  int post(uint64_t id, uint32_t lkey, std::size_t offset = kBytes / 2) {
    ibv_sge where{reinterpret_cast<uint64_t>(memory_.data()) + offset, 64, lkey};
    ibv_recv_wr wr{id, nullptr, &where, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_, &wr, &bad);
  }
  int resize(uint32_t max_wr) {
    ibv_srq_attr attr{};
    attr.max_wr = max_wr;
    return ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR);
  }
  uint32_t max_wr() {
    ibv_srq_attr attr{};
    EXPECT_EQ(ibv_query_srq(srq_, &attr), 0);
    return attr.max_wr;
  }
  ibv_wc_status of_receive(uint64_t id) {
    for (const ibv_wc& wc : poll(2)) {
      if (wc.wr_id == id) return wc.status;
    }
    return IBV_WC_GENERAL_ERR;
  }

  ibv_pd* of_srq_ = nullptr;
  ibv_mr* in_srq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* receiver_ = nullptr;
  ibv_qp* sender_ = nullptr;
};

// IBTA vol. 1, 10.2.9.
TEST_F(SharedReceives, AreOfTheQueuesDomain) {
  std::strcpy(memory_.data(), "into the queue's domain");
  ASSERT_EQ(post(7, in_srq_->lkey), 0);
  ASSERT_EQ(post_send(sender_, 1, 24), 0);
  EXPECT_EQ(of_receive(7), IBV_WC_SUCCESS);
  EXPECT_STREQ(memory_.data() + kBytes / 2, "into the queue's domain");
}

TEST_F(SharedReceives, AreNotOfTheQueuePairsDomain) {
  ASSERT_EQ(post(7, mr_->lkey), 0);
  ASSERT_EQ(post_send(sender_, 1, 24), 0);
  EXPECT_EQ(of_receive(7), IBV_WC_LOC_PROT_ERR);
}

TEST_F(SharedReceives, SurviveAResizeInOrder) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context_, &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, 0u);
  const auto receive = [&](uint64_t id) {
    ASSERT_EQ(post_send(sender_, 1000, 8), 0);
    EXPECT_EQ(of_receive(id), IBV_WC_SUCCESS) << id;
  };
  ASSERT_EQ(max_wr(), 4u);
  for (uint64_t id = 1; id <= 2; ++id) ASSERT_EQ(post(id, in_srq_->lkey), 0);
  receive(1);  // the ring does not begin at its first slot any more
  for (uint64_t id = 3; id <= 5; ++id) ASSERT_EQ(post(id, in_srq_->lkey), 0);
  EXPECT_EQ(post(6, in_srq_->lkey), ENOMEM);
  EXPECT_EQ(resize(2), EINVAL) << "four receives are posted";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(max_wr(), 4u);
  ASSERT_EQ(resize(100), 0);
  EXPECT_EQ(max_wr(), 128u);
  for (uint64_t id = 6; id <= 129; ++id) ASSERT_EQ(post(id, in_srq_->lkey), 0) << id;
  EXPECT_EQ(post(130, in_srq_->lkey), ENOMEM);
  for (uint64_t id = 2; id <= 126; ++id) receive(id);
  ASSERT_EQ(resize(1), EINVAL);
  ASSERT_EQ(resize(3), 0);
  EXPECT_EQ(max_wr(), 4u);
  for (uint64_t id = 127; id <= 129; ++id) receive(id);
  ASSERT_EQ(post(131, in_srq_->lkey), 0);
  receive(131);
}

TEST_F(SharedReceives, KeepTheirLimitOverAResize) {
  ibv_srq_attr attr{};
  attr.srq_limit = 3;
  ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(resize(2), EINVAL) << "below the limit";
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_EQ(post(id, in_srq_->lkey), 0);
  ASSERT_EQ(resize(16), 0);
  ASSERT_EQ(post_send(sender_, 1000, 8), 0);
  EXPECT_EQ(of_receive(1), IBV_WC_SUCCESS);
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    ibv_ack_async_event(&event);
  } while (event.event_type == IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event.element.srq, srq_);
  EXPECT_EQ(resize(0), EINVAL);
  EXPECT_EQ(resize(1 << 30), EINVAL);
}

}  // namespace
}  // namespace uroce::dropin
