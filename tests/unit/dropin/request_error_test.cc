// Completions at both ends of requests that the receiving end refuses (IBTA vol. 1, 9.9.3), and datagrams to odd
// destinations.
#include "pair.h"

namespace uroce::dropin {
namespace {

class RequestErrors : public Pair {
 protected:
  void post(ibv_send_wr wr, uint64_t id) {
    ibv_sge where = sge(0, 8);
    wr.wr_id = id;
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
  }
  /// The status of each of the first completions by wr_id, of those with ids below `count`.
  std::vector<ibv_wc_status> statuses(std::size_t count) {
    std::vector<ibv_wc_status> out(count, IBV_WC_GENERAL_ERR);
    for (const ibv_wc& wc : poll(count)) out.at(wc.wr_id) = wc.status;
    return out;
  }
};

// Class J: no NAK; the receive fails, and the others are flushed.
TEST_F(RequestErrors, ASendThatCannotInvalidateFailsItsReceiveAlone) {
  ASSERT_EQ(post_recv(qp_[1], 1, 64), 0);
  ASSERT_EQ(post_recv(qp_[1], 2, 64), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = mr_->rkey ^ 1;
  post(wr, 0);
  EXPECT_EQ(statuses(3), (std::vector{IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR}));
}

// Class C: the receive that the immediate data would complete has an error, too: that of 11.6.2.
TEST_F(RequestErrors, AWriteWithImmediateAndABadKeyFailsItsReceive) {
  ASSERT_EQ(post_recv(qp_[1], 1, 64), 0);
  ASSERT_EQ(post_recv(qp_[1], 2, 64), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()) + 4096, mr_->rkey ^ 1};
  post(wr, 0);
  EXPECT_EQ(statuses(3), (std::vector{IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}));
}

TEST_F(RequestErrors, ADatagramsDestinationHas24Bits) {
  ibv_qp* qp = make_datagram_qp(0x1234);
  ASSERT_NE(qp, nullptr);
  ibv_ah* ah = make_own_ah();
  ASSERT_NE(ah, nullptr);
  ASSERT_EQ(post_recv(qp, 1, 128), 0);
  ASSERT_EQ(post_datagram(qp, ah, qp->qp_num | 0xab000000, 0x1234, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(statuses(2), (std::vector{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

}  // namespace
}  // namespace uroce::dropin
