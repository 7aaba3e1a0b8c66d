// The drop-in library as programs use it: posting, sharing objects, queries, and refused calls.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/wr_opcodes.h"
#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/later_verbs.h"
#include "pair.h"

namespace uroce::dropin {
namespace {

TEST_F(Pair, CarriesASendWithItsImmediateDataAsBytes) {
  ASSERT_EQ(post_recv(qp_[1], 7, 100), 0);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(qp_[0]);
  ASSERT_NE(qp, nullptr);
  std::strcpy(memory_.data(), "over the adapter");
  ibv_wr_start(qp);
  qp->wr_id = 8;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(qp, htobe32(0x01020304));
  ibv_wr_set_sge(qp, mr_->lkey, reinterpret_cast<uint64_t>(memory_.data()), 17);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const ibv_wc& wc : poll(2)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id != 7) continue;
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, 17u);
    EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
    EXPECT_EQ(wc.imm_data, htobe32(0x01020304));
    EXPECT_EQ(wc.qp_num, qp_[1]->qp_num);
  }
  EXPECT_STREQ(memory_.data() + kBytes / 2, "over the adapter");
}

TEST_F(Pair, NamesTheFirstRequestThatIsNotPosted) {
  ibv_sge where = sge(0, 8);
  std::vector<ibv_send_wr> list(20);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].wr_id = i;
    list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].sg_list = &where;
    list[i].num_sge = 1;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()) + 4096, mr_->rkey};
    list[i].send_flags = IBV_SEND_SIGNALED;
  }
  list[11].opcode = IBV_WR_TSO;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_[0], list.data(), &bad), EOPNOTSUPP);
  EXPECT_EQ(bad, &list[11]);
  const auto done = poll(11);
  ASSERT_EQ(done.size(), 11u);
  for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i].wr_id, i);

  list[0].num_sge = -1;
  EXPECT_EQ(ibv_post_send(qp_[0], list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[0]);
  ibv_recv_wr receives[2] = {{1, &receives[1], &where, 1}, {2, nullptr, &where, 100}};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(ibv_post_recv(qp_[0], receives, &bad_receive), EINVAL) << "more entries than any queue takes";
  EXPECT_EQ(bad_receive, &receives[1]);
}

TEST_F(Pair, CallsForSendingAreThoseThatTheTypeOffers) {
  constexpr std::pair<WrOpcode, uint64_t> kOperations[] = {
      {WrOpcode::rdma_write, IBV_QP_EX_WITH_RDMA_WRITE},
      {WrOpcode::rdma_write_with_imm, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
      {WrOpcode::send, IBV_QP_EX_WITH_SEND},
      {WrOpcode::send_with_imm, IBV_QP_EX_WITH_SEND_WITH_IMM},
      {WrOpcode::rdma_read, IBV_QP_EX_WITH_RDMA_READ},
      {WrOpcode::compare_swap, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
      {WrOpcode::fetch_add, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
      {WrOpcode::local_invalidate, IBV_QP_EX_WITH_LOCAL_INV},
      {WrOpcode::bind_mw, IBV_QP_EX_WITH_BIND_MW},
      {WrOpcode::send_with_invalidate, IBV_QP_EX_WITH_SEND_WITH_INV},
      {WrOpcode::atomic_write, IBV_QP_EX_WITH_ATOMIC_WRITE},
      {WrOpcode::flush, 1u << 11},  // IBV_QP_EX_WITH_FLUSH of later headers
  };
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    for (const auto& [opcode, flag] : kOperations) {
      ibv_qp_init_attr_ex attr{};
      attr.send_cq = attr.recv_cq = cq_;
      attr.cap = {1, 1, 1, 1, 0};
      attr.qp_type = type;
      attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      attr.pd = pd_;
      attr.send_ops_flags = flag;
      errno = 0;
      ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
      const bool offered = offers(static_cast<QpType>(type), opcode);
      EXPECT_EQ(qp != nullptr, offered) << "type " << type << ", flag " << flag;
      if (qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
      } else {
        EXPECT_EQ(errno, EOPNOTSUPP);
      }
    }
  }
}

TEST_F(Pair, AtomicWriteCarriesItsValue) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(qp_[0]);
  const uint64_t target = reinterpret_cast<uint64_t>(memory_.data()) + 4096;
  char value[] = "eight by";
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_write(qp, mr_->rkey, target, value);
  std::strcpy(value, "changed");
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  const auto done = poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[0].opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(std::memcmp(memory_.data() + 4096, "eight by", 8), 0);
}

TEST_F(Pair, ProgramsOfLaterHeadersCanFlush) {
  constexpr int kFlushGlobal = 1 << 8;
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), kBytes, IBV_ACCESS_LOCAL_WRITE | kFlushGlobal);
  ASSERT_NE(mr, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, memory_.data(), kBytes, IBV_ACCESS_LOCAL_WRITE | 1 << 9), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP) << "persistence";
  ibv_qp_attr attr{};
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | kFlushGlobal;
  ASSERT_EQ(ibv_modify_qp(qp_[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
  auto* qp = static_cast<later::QpEx*>(ibv_qp_to_qp_ex(qp_[0]));
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_flush(qp, mr->rkey, reinterpret_cast<uint64_t>(memory_.data()), 100, 1, 0);
  qp->wr_flush(qp, mr->rkey, 0, 0, 1, 1);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (const ibv_wc& wc : poll(2)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, 8);  // IBV_WC_FLUSH
  }
  ibv_wr_start(qp);
  qp->wr_flush(qp, mr->rkey, 0, std::size_t{1} << 32, 1, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Pair, AbortAndFaultsPostNothing) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(qp_[0]);
  const auto write = [&](uint32_t length) {
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(qp, mr_->rkey, reinterpret_cast<uint64_t>(memory_.data()) + 4096);
    ibv_wr_set_inline_data(qp, memory_.data(), length);
  };
  ibv_wr_start(qp);
  write(8);
  ibv_wr_abort(qp);
  ibv_wr_start(qp);
  write(8);
  write(65);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL) << "more inline bytes than asked for";
  ibv_wr_start(qp);
  write(8);
  ibv_wr_send_tso(qp, nullptr, 0, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EOPNOTSUPP);
  // Requests complete in order, so one of those above would come first.
  ibv_wr_start(qp);
  qp->wr_id = 9;
  write(8);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  const auto done = poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].wr_id, 9u);
}

// Programs keep a queue full: they post as many requests as completions came (perftest's ib_send_bw -b -e).
TEST_F(Pair, EachCompletionMakesRoomForARequest) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_CAP, &init), 0);
  const auto depth = static_cast<int>(init.cap.max_send_wr);
  ibv_sge where = sge(0, 8);
  ibv_send_wr wr{};
  wr.sg_list = &where;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()) + 4096, mr_->rkey};
  ibv_send_wr* bad = nullptr;
  int room = depth;
  const auto until = Clock::now() + 20s;
  for (int posted = 0; posted < 50000 && Clock::now() < until;) {
    for (; room > 0; --room, ++posted) ASSERT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0) << "after " << posted;
    ibv_wc wc[4];
    room += ibv_poll_cq(cq_, 4, wc);
  }
  const auto left = static_cast<std::size_t>(depth - room);
  EXPECT_EQ(poll(left).size(), left);
}

TEST_F(Pair, ObjectsInUseStay) {
  const auto expect_busy = [](int result) {
    EXPECT_EQ(result, EBUSY);
    EXPECT_EQ(std::exchange(errno, 0), EBUSY);
  };
  errno = 0;
  expect_busy(ibv_dealloc_pd(pd_));
  expect_busy(ibv_destroy_cq(cq_));
  expect_busy(ibv_destroy_comp_channel(channel_));
  ibv_td_init_attr of_td{};
  ibv_td* td = ibv_alloc_td(context_, &of_td);
  ibv_parent_domain_init_attr of_parent{};
  of_parent.pd = pd_;
  of_parent.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(context_, &of_parent);
  ASSERT_NE(parent, nullptr);
  expect_busy(ibv_dealloc_td(td));
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(Pair, QueryReturnsTheAttributesSet) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, qp_[1]->qp_num);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_GE(init.cap.max_inline_data, 64u);
  EXPECT_EQ(init.send_cq, cq_);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
  EXPECT_EQ(init.sq_sig_all, 0);
}

TEST_F(Pair, ThreadsMayPostAndPollAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> completed = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    ibv_sge where = sge(0, 8);
    ibv_send_wr wr{};
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {reinterpret_cast<uint64_t>(memory_.data()) + 4096, mr_->rkey};
    ibv_send_wr* bad = nullptr;
    const auto until = Clock::now() + 40s;
    for (int posted = 0; (posted < kEach || completed < kThreads * kEach) && !failed;) {
      if (posted < kEach) {
        const int error = ibv_post_send(qp_[0], &wr, &bad);
        if (error == 0) ++posted;
        if (error != 0 && error != ENOMEM) failed = true;
      }
      ibv_wc wc[4];
      const int got = ibv_poll_cq(cq_, 4, wc);
      for (int i = 0; i < got; ++i) {
        if (wc[i].status != IBV_WC_SUCCESS) failed = true;
      }
      completed += got;
      if (Clock::now() > until) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(completed, kThreads * kEach);
}

TEST_F(Pair, ARegionIsAddressedFromItsIova) {
  constexpr uint64_t kBase = 0x123450000;
  ibv_mr* mr = ibv_reg_mr_iova(pd_, memory_.data(), kBytes, kBase, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory_.data());
  std::strcpy(memory_.data() + 8, "moved");
  ibv_sge where{kBase + 8, 6, mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &where;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {kBase + 4096, mr->rkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
  const auto done = poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_STREQ(memory_.data() + 4096, "moved");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Pair, NumbersOfLaterHeadersAreRefused) {
  ibv_send_wr wr{};
  set_number(wr.opcode, 77);
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp_[0], &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);

  ibv_qp_init_attr qp{};
  set_number(qp.qp_type, 0x100 + IBV_QPT_RC);
  EXPECT_EQ(ibv_create_qp(pd_, &qp), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);

  ibv_srq_init_attr_ex srq{};
  srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  srq.pd = pd_;
  set_number(srq.srq_type, 4);
  // The header's ibv_create_srq_ex() would read the type as an enumerator.
  EXPECT_EQ(verbs_get_ctx(context_)->create_srq_ex(context_, &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);

  ibv_qp_attr attr{};
  set_number(attr.qp_state, 0x100 + IBV_QPS_ERR);
  EXPECT_EQ(ibv_modify_qp(qp_[0], &attr, IBV_QP_STATE), EINVAL);
  EXPECT_EQ(qp_[0]->state, IBV_QPS_RTS);
}

TEST_F(Pair, UnsupportedCallsFail) {
  ibv_qp_init_attr special{};
  special.send_cq = special.recv_cq = cq_;
  special.cap = {1, 1, 1, 1, 0};
  special.qp_type = IBV_QPT_DRIVER;
  EXPECT_EQ(ibv_create_qp(pd_, &special), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_flow_attr flow{};
  EXPECT_EQ(ibv_create_flow(qp_[0], &flow), nullptr);
  EXPECT_EQ(ibv_import_device(0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Pair, ARateIsLimitedByEitherCall) {
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &device), 0);
  EXPECT_EQ(device.packet_pacing_caps.supported_qpts, 1u << IBV_QPT_RC);
  ibv_qp_rate_limit_attr rate{.rate_limit = 100'000, .max_burst_sz = 0, .typical_pkt_sz = 0, .comp_mask = 0};
  const auto time_to_write = [&] {
    const auto from = Clock::now();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(post_write(i, 60000), 0);
    EXPECT_EQ(poll(10).size(), 10u);
    return Clock::now() - from;
  };
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp_[0], &rate), 0);
  EXPECT_GE(time_to_write(), 40ms) << "4.8 Mbit at 100 Mb/s";
  ibv_qp_attr attr{};
  attr.rate_limit = 50'000;
  EXPECT_EQ(ibv_modify_qp(qp_[0], &attr, IBV_QP_RATE_LIMIT), 0);
  EXPECT_GE(time_to_write(), 80ms);
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp_[0], &attr, IBV_QP_RATE_LIMIT, &init), 0);
  EXPECT_EQ(attr.rate_limit, 50'000u);
  rate.rate_limit = device.packet_pacing_caps.qp_rate_limit_min - 1;
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp_[0], &rate), EINVAL);
  rate = {.rate_limit = 0, .max_burst_sz = 4096, .typical_pkt_sz = 0, .comp_mask = 0};
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp_[0], &rate), EOPNOTSUPP);
  rate.max_burst_sz = 0;
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp_[0], &rate), 0);
  ibv_qp* datagrams = make_datagram_qp(1);
  EXPECT_EQ(ibv_modify_qp_rate_limit(datagrams, &rate), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(datagrams), 0);
}

TEST_F(Pair, ImportsAreTheSameObjects) {
  const int copy = dup(context_->cmd_fd);
  ibv_context* imported = ibv_import_device(copy);
  ASSERT_NE(imported, nullptr);
  ibv_pd* pd = ibv_import_pd(imported, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* mr = ibv_import_mr(pd, mr_->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->lkey, mr_->lkey);
  EXPECT_EQ(ibv_import_mr(pd, 0xffffff), nullptr);
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(imported), 0);
}

}  // namespace
}  // namespace uroce::dropin
