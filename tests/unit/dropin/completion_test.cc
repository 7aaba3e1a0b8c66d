// Completion queues, channels and events of the drop-in library.
#include <fcntl.h>
#include <poll.h>
#include <uroce/daemon.h>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>
#include <utility>

#include "pair.h"

/// Called when this thread gives its core away the next time.
static thread_local std::function<void()> on_yield;

extern "C" int sched_yield() noexcept {
  if (on_yield) std::exchange(on_yield, nullptr)();
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace uroce::dropin {
namespace {

/// Those that the device's engines have written so far.
uint64_t completions_of(const Context& device) {
  uint64_t sum = 0;
  for (const auto& [name, value] : device.counters()) {
    if (name == "send_completions" || name == "recv_completions") sum += value;
  }
  return sum;
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

// mlx5 behaves like this. UCX arms a queue that it has not polled to the end, and sleeps.
TEST_F(Pair, AQueueIsArmedWithCompletionsWaiting) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  pollfd readable{channel_->fd, POLLIN, 0};
  void* of_cq = nullptr;
  ibv_cq* from = nullptr;
  ibv_wc first{};
  ASSERT_EQ(post_recv(qp_[1], 1, 100), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 10), 0);
  for (const auto until = Clock::now() + 20s; Clock::now() < until && ibv_poll_cq(cq_, 1, &first) == 0;) {
  }
  // The other of the two completions waits now, or comes.
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(::poll(&readable, 1, 20000), 1);
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  EXPECT_EQ(from, cq_);
  ibv_ack_cq_events(cq_, 1);

  // It has had its event. perftest arms before it polls, and takes each event for a completion.
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(poll(1).size(), 1u);
  for (int round = 0; round < 3; ++round) {  // the queue is armed; one event for each completion
    ASSERT_EQ(post_recv(qp_[1], 5, 100), 0);
    ASSERT_EQ(post_send(qp_[0], 6, 10, 0), 0);
    ASSERT_EQ(::poll(&readable, 1, 20000), 1);
    ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
    ibv_ack_cq_events(cq_, 1);
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    EXPECT_EQ(::poll(&readable, 1, 0), 0);
    EXPECT_EQ(poll(1).size(), 1u);
  }

  // Armed in the middle of a poll.
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.channel = channel_;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &attr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  connect(qp, qp);
  ASSERT_EQ(post_recv(qp, 3, 64), 0);
  ASSERT_EQ(post_send(qp, 4, 8), 0);
  ibv_poll_cq_attr how{};
  for (const auto until = Clock::now() + 20s; ibv_start_poll(cq, &how) != 0;) ASSERT_LT(Clock::now(), until);
  EXPECT_EQ(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// A program that takes one completion for each event would otherwise wait for the second for ever.
TEST_F(Pair, EachCompletionOfAQueueThatWasNotArmedHasAnEvent) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  const Context device = open_daemon_device(ibv_get_device_name(context_->device)).value();
  const uint64_t before = completions_of(device);
  constexpr uint64_t kCount = 3;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(post_recv(qp_[1], i, 100), 0);
    ASSERT_EQ(post_send(qp_[0], i, 10, 0), 0);
  }
  for (const auto until = Clock::now() + 20s; completions_of(device) < before + kCount;) ASSERT_LT(Clock::now(), until);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ibv_cq* from = nullptr;
  void* of_cq = nullptr;
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0) << i;
    ibv_ack_cq_events(cq_, 1);
    ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
    EXPECT_EQ(poll(1).size(), 1u);
  }
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// As with Linux, which raises an event at once where the device does.
TEST_F(Pair, AnEventThatArmingRaisesComesBehindOlderOnes) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = ibv_create_cq(context_, 16, nullptr, channel_, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  connect(qp, qp);
  const Context device = open_daemon_device(ibv_get_device_name(context_->device)).value();
  const uint64_t before = completions_of(device);
  ASSERT_EQ(post_recv(qp, 1, 64), 0);
  ASSERT_EQ(post_send(qp, 2, 8, 0), 0);
  for (const auto until = Clock::now() + 20s; completions_of(device) < before + 1;) ASSERT_LT(Clock::now(), until);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(post_recv(qp_[1], 3, 64), 0);
  ASSERT_EQ(post_send(qp_[0], 4, 8, 0), 0);
  pollfd readable{channel_->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 20000), 1);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  for (ibv_cq* next : {cq_, cq}) {
    ibv_cq* from = nullptr;
    void* of_cq = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
    EXPECT_EQ(from, next);
    ibv_ack_cq_events(from, 1);
  }
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// As with mlx5: programs look into what they have freed with the queue pair.
TEST_F(Pair, ADestroyedQueuePairHasNoCompletions) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  const Context device = open_daemon_device(ibv_get_device_name(context_->device)).value();
  const uint64_t before = completions_of(device);
  const auto wait_for = [&](uint64_t count) {
    for (const auto until = Clock::now() + 20s; completions_of(device) < before + count;)
      ASSERT_LT(Clock::now(), until);
  };
  ibv_qp* qp = create_qp();
  connect(qp, qp);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ASSERT_EQ(post_recv(qp_[1], 1, 100), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 10, 0), 0);
  wait_for(1);
  for (uint64_t id = 10; id < 13; ++id) {
    ASSERT_EQ(post_recv(qp, id, 100), 0);
    ASSERT_EQ(post_send(qp, id, 10, id == 10 ? IBV_SEND_SIGNALED : 0), 0);
  }
  wait_for(5);
  ibv_cq* from = nullptr;
  void* of_cq = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  // The other queue pair's completion has had its event.
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  const auto left = poll(1);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].wr_id, 1u);
  ibv_wc none{};
  EXPECT_EQ(ibv_poll_cq(cq_, 1, &none), 0);
  // The queue is armed still, for one event.
  ASSERT_EQ(post_recv(qp_[1], 3, 100), 0);
  ASSERT_EQ(post_send(qp_[0], 4, 10, 0), 0);
  wait_for(6);
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  ibv_ack_cq_events(cq_, 1);
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  EXPECT_EQ(poll(1).size(), 1u);
}

TEST_F(Pair, AnEmptyQueueRaisesNoEvent) {
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  ASSERT_EQ(post_recv(qp_[1], 1, 100), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 10), 0);
  ASSERT_EQ(poll(2).size(), 2u);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  void* of_cq = nullptr;
  ibv_cq* from = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), -1);
  EXPECT_EQ(errno, EAGAIN);
}

// UCX takes the kind of a datagram's address from there.
// Otherwise a program learns that the queue is empty long after it was. libfabric's ofi_rxm then ends the connection,
// and crashes on the message that waits.
TEST_F(Pair, APollThatYieldsLooksAgain) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  on_yield = [&] {
    EXPECT_EQ(post_recv(qp_[1], 1, 100), 0);
    EXPECT_EQ(post_send(qp_[0], 2, 10), 0);
    pollfd readable{channel_->fd, POLLIN, 0};
    EXPECT_EQ(::poll(&readable, 1, 20000), 1);
  };
  ibv_wc first{};
  int got = 0;
  for (int polls = 0; polls < 1000 && on_yield; ++polls) got = ibv_poll_cq(cq_, 1, &first);
  EXPECT_FALSE(on_yield);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(first.wr_id, 1u);
  EXPECT_EQ(poll(1).size(), 1u);
  ibv_cq* from = nullptr;
  void* of_cq = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel_, &from, &of_cq), 0);
  ibv_ack_cq_events(cq_, 1);
}

TEST_F(Pair, ADatagramsCompletionNamesItsPacketsKind) {
  ibv_qp* qp = make_datagram_qp(0);
  ASSERT_NE(qp, nullptr);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  int kinds = 0;
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(context_, 1, index, &gid), 0);
    if (gid.global.interface_id == 0) continue;
    const bool ipv4 = gid.global.subnet_prefix == 0;
    ibv_ah* ah = make_own_ah(index);
    ASSERT_NE(ah, nullptr);
    ASSERT_EQ(post_recv(qp, 1, 100), 0);
    ASSERT_EQ(post_datagram(qp, ah, qp->qp_num, 0, 0), 0);
    const auto done = poll(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].wc_flags, unsigned{IBV_WC_GRH});
    EXPECT_EQ(done[0].sl, ipv4 ? 10 : 9);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
    ++kinds;
  }
  EXPECT_GE(kinds, 1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
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

TEST_F(Pair, ACompletionQueueGrowsAndShrinksWithCompletionsWaiting) {
  EXPECT_EQ(ibv_resize_cq(cq_, 0), EINVAL);
  const Context device = open_daemon_device(ibv_get_device_name(context_->device)).value();
  const uint64_t before = completions_of(device);
  ASSERT_EQ(post_recv(qp_[1], 1, 8), 0);
  ASSERT_EQ(post_send(qp_[0], 2, 8), 0);
  for (const auto until = Clock::now() + 20s; completions_of(device) < before + 2;) ASSERT_LT(Clock::now(), until);
  EXPECT_EQ(ibv_resize_cq(cq_, 1), EINVAL);
  EXPECT_EQ(cq_->cqe, 256);
  EXPECT_EQ(poll(2).size(), 2u) << "they were not lost";
  EXPECT_EQ(ibv_resize_cq(cq_, 1), 0);
  EXPECT_EQ(ibv_resize_cq(cq_, 100), 0);
  EXPECT_EQ(cq_->cqe, 100);
}

}  // namespace
}  // namespace uroce::dropin
