// The drop-in library as programs use it, on a stack in this process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

ibv_context* open_first() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) return nullptr;
  ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  return context;
}

/// Two RC queue pairs of one device, joined.
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
  std::this_thread::sleep_for(20ms);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &wc), 0);
  ibv_wr_start(qp);
  write(8);
  EXPECT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(poll(1).size(), 1u);
}

TEST_F(Pair, EventsComeThroughAPollableDescriptor) {
  void* of_cq = nullptr;
  ibv_cq* from = nullptr;
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  EXPECT_EQ(errno, EAGAIN);

  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(post_recv(qp_[1], 1, 100), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 10), 0);
  pollfd readable{channel_->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 20000), 1);
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  EXPECT_EQ(from, cq_);
  EXPECT_EQ(of_cq, this);
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(poll(2).size(), 2u);

  // Blocking: another thread's send is what ends the wait.
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) & ~O_NONBLOCK), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(post_recv(qp_[1], 3, 100), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(post_send(qp_[0], 4, 10), 0);
  });
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  sender.join();
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(poll(2).size(), 2u);
}

TEST_F(Pair, DestroyingAQueueWaitsForItsEventsToBeAcknowledged) {
  ibv_cq* cq = ibv_create_cq(context_, 16, nullptr, channel_, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_INIT;
  error.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
  ASSERT_EQ(post_recv(qp, 1, 8), 0);
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);  // flushes the receive
  ibv_cq* from = nullptr;
  void* of_cq = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  ASSERT_EQ(from, cq);
  ASSERT_EQ(ibv_destroy_qp(qp), 0);
  std::atomic<bool> acknowledged = false;
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_TRUE(acknowledged);
  later.join();
}

TEST_F(Pair, WhatIsInUseStays) {
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

TEST_F(Pair, QueryShowsWhatWasSet) {
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

TEST_F(Pair, AnExtendedQueueShowsEachCompletion) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &attr);
  ASSERT_NE(cq, nullptr);
  ibv_poll_cq_attr how{};
  EXPECT_EQ(ibv_start_poll(cq, &how), ENOENT);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  connect(qp, qp);
  for (uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(post_recv(qp, 100 + id, 64), 0);
    ASSERT_EQ(post_send(qp, id, 8 + static_cast<uint32_t>(id), 0), 0);
  }
  int seen = 0;
  uint64_t last = 0;
  for (const auto until = Clock::now() + 20s; seen < 8 && Clock::now() < until;) {
    if (ibv_start_poll(cq, &how) != 0) continue;
    do {
      EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
      EXPECT_EQ(ibv_wc_read_qp_num(cq), qp->qp_num);
      if (cq->wr_id >= 100) {
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        EXPECT_EQ(ibv_wc_read_byte_len(cq), 8 + cq->wr_id - 100);
        EXPECT_GE(ibv_wc_read_completion_ts(cq), last);
        last = ibv_wc_read_completion_ts(cq);
      }
      ++seen;
    } while (ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
  }
  EXPECT_EQ(seen, 8);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(Pair, WhatIsNotOfferedSaysSo) {
  ibv_xrcd_init_attr xrcd{};
  EXPECT_EQ(ibv_open_xrcd(context_, &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_init_attr raw{};
  raw.send_cq = raw.recv_cq = cq_;
  raw.cap = {1, 1, 1, 1, 0};
  raw.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(ibv_create_qp(pd_, &raw), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, 0, 4096, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_alloc_dm_attr dm{};
  EXPECT_EQ(ibv_alloc_dm(context_, &dm), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_alloc_null_mr(pd_), nullptr);
  ibv_counters_init_attr counters{};
  EXPECT_EQ(ibv_create_counters(context_, &counters), nullptr);
  ibv_flow_attr flow{};
  EXPECT_EQ(ibv_create_flow(qp_[0], &flow), nullptr);
  ibv_wq_init_attr wq{};
  EXPECT_EQ(ibv_create_wq(context_, &wq), nullptr);
  EXPECT_EQ(ibv_import_device(0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_rate_limit_attr rate{};
  EXPECT_EQ(ibv_modify_qp_rate_limit(qp_[0], &rate), EOPNOTSUPP);
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

TEST_F(Pair, ACompletionQueueGrowsAndShrinksAroundWhatWaits) {
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
  ASSERT_EQ(post_recv(qp_[1], 1, 8), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 8), 0);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(ibv_resize_cq(cq_, 1), EINVAL);
  EXPECT_EQ(cq_->cqe, 256);
  EXPECT_EQ(poll(2).size(), 2u) << "they were not lost";
  EXPECT_EQ(ibv_resize_cq(cq_, 1), 0);
  EXPECT_EQ(ibv_resize_cq(cq_, 100), 0);
  EXPECT_EQ(cq_->cqe, 100);
}

}  // namespace
