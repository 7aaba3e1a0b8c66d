// A planned restart: XRC domains, queues and targets that programs share.
#include <algorithm>
#include <array>
#include <optional>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "succession_fixture.h"

namespace uroce::service {
namespace {

class SuccessionXrc : public SuccessionTest {
 protected:
  /// In a program of its own: the same socket by another name.
  Side another() {
    return Side(must(open_daemon_device("uroce0", {folder_ + std::string(++programs_, '/') + "socket"})));
  }
  void post(QueuePair& from, SharedReceiveQueue& queue, uint64_t wr_id, uint32_t bytes, Side& to) {
    ASSERT_EQ(queue.post_recv({.wr_id = wr_id, .sges = std::array{to.mr.sge(0, bytes)}}), 0);
    ASSERT_EQ(from.post_send({.opcode = WrOpcode::send,
                              .flags = SendFlag::signaled,
                              .sges = std::array{peer_->mr.sge(0, bytes)},
                              .remote_srqn = queue.id()}),
              0);
  }
  void expect(uint64_t wr_id, uint32_t bytes, Side& to) {
    const auto received = next(world_, to.cq);
    EXPECT_EQ(received.status, WcStatus::success);
    EXPECT_EQ(received.wr_id, wr_id);
    EXPECT_EQ(received.byte_len, bytes);
    EXPECT_EQ(next(world_, peer_->cq).status, WcStatus::success);
    EXPECT_TRUE(std::equal(to.memory.begin(), to.memory.begin() + bytes, peer_->memory.begin()));
  }
  void exchange(QueuePair& from, SharedReceiveQueue& queue, uint32_t bytes, Side& to) {
    post(from, queue, bytes, bytes, to);
    expect(bytes, bytes, to);
    std::ranges::fill(to.memory, std::byte{});
  }

  const message::Fd file_{memfd_create("xrc", MFD_CLOEXEC)};
  std::size_t programs_ = 1;
};

TEST_F(SuccessionXrc, ProgramsGoOnSharingADomainAndItsConnections) {
  Side second = another();
  auto domain = must(client_->context.open_xrc_domain({.fd = file_.get()}));
  auto same = must(second.context.open_xrc_domain({.fd = file_.get(), .create = false}));
  std::optional target(must(client_->context.create_xrc_target(domain)));
  auto qp = peer_->make_qp({.type = QpType::xrc_initiator});
  connect(*peer_, qp, *client_, *target);
  auto opened = must(second.context.open_xrc_target(same, target->qpn()));
  auto first_queue = must(client_->context.create_xrc_srq(client_->pd, domain, client_->cq, 16, 2));
  auto second_queue = must(second.context.create_xrc_srq(second.pd, same, second.cq, 16, 2));
  for (int restart = 0; restart < 3; ++restart) {
    exchange(qp, first_queue, 100, *client_);
    exchange(qp, second_queue, 20000, second);
    const auto over = hand_over();
    EXPECT_EQ(over.refused, 0u) << log();
    EXPECT_EQ(over.queue_pairs, 2u) << "the target, twice";
  }
  // It lives until the last of its programs gives it up.
  target.reset();
  (void)must(client_->context.create_pd());  // that is done then
  EXPECT_EQ(hand_over().queue_pairs, 1u);
  exchange(qp, second_queue, 8, second);
  EXPECT_EQ(must(opened.query()).state, QpState::rts);
}

TEST_F(SuccessionXrc, ADomainThatIsClosedStaysWithItsQueue) {
  std::optional domain(must(client_->context.open_xrc_domain({})));
  auto queue = must(client_->context.create_xrc_srq(client_->pd, *domain, client_->cq, 16, 2));
  auto target = must(client_->context.create_xrc_target(*domain));
  auto qp = peer_->make_qp({.type = QpType::xrc_initiator});
  connect(*peer_, qp, *client_, target);
  domain.reset();
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(hand_over().refused, 0u) << log();
    exchange(qp, queue, 3000, *client_);
  }
}

TEST_F(SuccessionXrc, InitiatorsGoOnAndMessagesInProgressToo) {
  auto domain = must(client_->context.open_xrc_domain({.fd = file_.get()}));
  auto queue = must(client_->context.create_xrc_srq(client_->pd, domain, client_->cq, 64, 2));
  auto target = must(client_->context.create_xrc_target(domain));
  auto qp = peer_->make_qp({.type = QpType::xrc_initiator});
  connect(*peer_, qp, *client_, target);
  auto idle = client_->make_qp({.type = QpType::xrc_initiator});
  for (int restart = 0; restart < 20; ++restart) {
    for (uint64_t i = 0; i < 3; ++i) post(qp, queue, i, Side::kBytes, *client_);
    EXPECT_EQ(hand_over().refused, 0u) << log();
    for (uint64_t i = 0; i < 3; ++i) expect(i, Side::kBytes, *client_);
    std::ranges::fill(client_->memory, std::byte{});
  }
}

}  // namespace
}  // namespace uroce::service
