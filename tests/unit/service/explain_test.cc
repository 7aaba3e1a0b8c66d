// Common mistakes and faults, each made, and what `uroce explain` says of it.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "client/daemon_link.h"
#include "message/connection.h"
#include "message/hello_messages.h"
#include "message/operator_messages.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/server_place.h"

namespace uroce::service {
namespace {

using test::must;
using test::next;
using test::Side;
using test::World;

class ExplainTest : public testing::Test {
 protected:
  ExplainTest() {
    world_.add();
    world_.add();
    start({});
  }
  ~ExplainTest() override {
    a_.reset();
    b_.reset();
    server_.reset();
    world_.stop();
  }

  void start(const Limits& limits) {
    server_.reset();
    server_ = must(Server::start({.socket = socket_, .max_clients = 64, .budgets = {.limits = limits, .users = {}}},
                                 {world_.device(0), world_.device(1)}, [](Severity, std::string_view) {}));
  }
  std::string another_program() { return place_.another_program(); }
  Context open(std::size_t n) { return must(open_daemon_device(world_.device(n)->config().name, {another_program()})); }

  /// Two programs, with a queue pair each, connected as `options` says.
  void connect(QueuePair::ConnectOptions options = {}) {
    a_.emplace(open(0));
    b_.emplace(open(1));
    qa_.emplace(a_->make_qp());
    qb_.emplace(b_->make_qp());
    options.psn = 17;
    must(qa_->connect(b_->peer(*qb_, 17), options));
    must(qb_->connect(a_->peer(*qa_, 17), options));
  }
  WcStatus send(WrOpcode opcode, uint32_t bytes, uint64_t to = 0, uint32_t rkey = 0) {
    const Sge source = a_->mr.sge(0, bytes);
    EXPECT_EQ(
        qa_->post_send(
            {.opcode = opcode, .flags = SendFlag::signaled, .sges = {&source, 1}, .remote_addr = to, .rkey = rkey}),
        0);
    return next(world_, a_->cq).status;
  }
  WcStatus write(uint32_t bytes) {
    return send(WrOpcode::rdma_write, bytes, reinterpret_cast<uint64_t>(b_->memory.data()), b_->mr.rkey());
  }

  message::HistoryRows history(const message::ListHistory& request = {}) {
    auto link = must(client::DaemonLink::open({.socket = another_program()}));
    return must(link->call<message::HistoryRows>(message::Op::list_history, request));
  }
  /// The last trouble of a queue pair, once it has one; 0: of any program.
  std::string trouble(uint32_t qpn = 0) {
    std::string text;
    EXPECT_TRUE(world_.run_until([&] {
      for (const message::HistoryRow& row : history({.qpn = qpn}).rows) {
        if (row.trouble) text = row.text;
      }
      return !text.empty();
    })) << "nothing went wrong with "
        << qpn;
    return text;
  }
  /// The row may be later than what the program saw, and another trouble may stand before it.
  void expect_trouble(uint32_t qpn, const std::string& words) {
    std::string text;
    EXPECT_TRUE(world_.run_until([&] {
      text = trouble(qpn);
      return text.find(words) != std::string::npos;
    })) << text;
  }

  ServerPlace place_{"explain"};
  const std::string socket_ = place_.socket();
  World world_{World::Mode::threaded};
  std::unique_ptr<Server> server_;
  std::optional<Side> a_, b_;
  std::optional<QueuePair> qa_, qb_;
};

TEST_F(ExplainTest, AProgramToWhichNothingHappened) {
  connect();
  EXPECT_EQ(write(8), WcStatus::success);
  const auto rows = history({.qpn = qa_->qpn()}).rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].trouble);
  EXPECT_EQ(rows[0].pid, getpid());
  EXPECT_EQ(rows[0].text,
            fmt::format("queue pair {:#x}: INIT, RTR to {:#x} at 10.0.0.2 with a path MTU of 1024 bytes, RTS with a "
                        "timeout of 67 ms, retry_cnt 7, rnr_retry 7",
                        qa_->qpn(), qb_->qpn()));
}

TEST_F(ExplainTest, AWrongKey) {
  connect();
  const uint64_t to = reinterpret_cast<uint64_t>(b_->memory.data());
  EXPECT_EQ(send(WrOpcode::rdma_write, 64, to, b_->mr.rkey() + 1), WcStatus::remote_access_error);
  expect_trouble(qa_->qpn(), fmt::format("ended with remote_access_error (status 10): the peer refused the RDMA WRITE "
                                         "of 64 bytes to {:#x}: its key, address, length or right is wrong",
                                         to));
  expect_trouble(qb_->qpn(), "it refused a request of its peer (key, address, length or access)");
}

TEST_F(ExplainTest, AWrongGid) {
  a_.emplace(open(0));
  qa_.emplace(a_->make_qp());
  world_.port(0).unanswered = true;
  test::expect_error(qa_->connect({World::gid(77), 5, 1}, {}), EHOSTUNREACH, "nobody answers");
  expect_trouble(qa_->qpn(), fmt::format("queue pair {:#x} refused: ", qa_->qpn()));
  expect_trouble(qa_->qpn(), "nobody answers");
}

TEST_F(ExplainTest, APathMtuThatTheWayDoesNotHave) {
  world_.port(0).longest = 1000;
  connect({.timeout = 12});
  EXPECT_EQ(write(512), WcStatus::success);
  EXPECT_EQ(write(8192), WcStatus::retry_exceeded);
  expect_trouble(qa_->qpn(), "no acknowledgement of the RDMA WRITE of 8192 bytes");
  expect_trouble(qa_->qpn(),
                 "but of 1 requests of one packet before: packets of the path MTU, 1024 bytes, may not pass");
}

TEST_F(ExplainTest, ATimeoutThatIsTooShort) {
  world_.port(0).longest = 0;
  connect({.timeout = 1});
  EXPECT_EQ(write(8), WcStatus::retry_exceeded);
  expect_trouble(qa_->qpn(),
                 "in 8 tries of 8.2 us; that is too short for a peer that is busy for a moment: set "
                 "timeout to 14 (67 ms) or more");
}

TEST_F(ExplainTest, NoReceive) {
  connect({.min_rnr_timer = 1, .rnr_retry = 2});
  EXPECT_EQ(send(WrOpcode::send, 64), WcStatus::rnr_retry_exceeded);
  expect_trouble(qa_->qpn(),
                 "ended with rnr_retry_exceeded (status 13): the peer had no receive posted for the SEND of "
                 "64 bytes, after 2 retries (rnr_retry)");
}

TEST_F(ExplainTest, APeerThatDied) {
  connect({.timeout = 12});
  EXPECT_EQ(write(8), WcStatus::success);
  qb_.reset();
  const uint64_t to = reinterpret_cast<uint64_t>(b_->memory.data());
  EXPECT_EQ(send(WrOpcode::rdma_write, 8, to, 1), WcStatus::retry_exceeded);
  expect_trouble(qa_->qpn(), "but of 1 requests before: the peer's queue pair or program has ended");
}

TEST_F(ExplainTest, NobodyWhoAnswers) {
  world_.port(0).longest = 0;
  connect({.timeout = 12});
  EXPECT_EQ(write(8), WcStatus::retry_exceeded);
  expect_trouble(qa_->qpn(), "and none of any request before: the peer may not run, a firewall may stand between");
}

TEST_F(ExplainTest, ALinkThatWentDown) {
  connect({.timeout = 12});
  EXPECT_EQ(write(8), WcStatus::success);
  world_.port(0).link = false;
  world_.port(0).longest = 0;
  world_.device(0)->report_link(false);
  EXPECT_EQ(write(8), WcStatus::retry_exceeded);
  expect_trouble(qa_->qpn(), "in 8 tries of 17 ms; the link was down meanwhile");
  const auto rows = history({.qpn = qa_->qpn()}).rows;
  EXPECT_EQ(std::ranges::count(rows, "uroce0: the link went down", &message::HistoryRow::text), 1);
  world_.port(0).link = true;
  world_.device(0)->report_link(true);
  EXPECT_TRUE(world_.run_until([&] { return trouble(qa_->qpn()) == "uroce0: the link is up again"; }));
}

TEST_F(ExplainTest, ABudget) {
  start({{Resource::qp, 1}});
  a_.emplace(open(0));
  qa_.emplace(a_->make_qp());
  const auto second = a_->context.create_qp(a_->pd, a_->cq, a_->cq, {}, nullptr);
  test::expect_error(second, ENOMEM, "limit");
  EXPECT_EQ(trouble(), "refused: " + second.error().text);
}

TEST_F(ExplainTest, ACompletionQueueThatIsFull) {
  connect();
  auto small = must(a_->context.create_cq(1, nullptr));
  auto qp = must(a_->context.create_qp(a_->pd, small, small, {}, nullptr));
  auto far = b_->make_qp();
  must(qp.connect(b_->peer(far, 5), {.psn = 6}));
  must(far.connect(a_->peer(qp, 6), {.psn = 5}));
  const Sge source = a_->mr.sge(0, 8);
  for (int i = 0; i < 8; ++i) {
    (void)qp.post_send({.opcode = WrOpcode::rdma_write,
                        .flags = SendFlag::signaled,
                        .sges = {&source, 1},
                        .remote_addr = reinterpret_cast<uint64_t>(b_->memory.data()),
                        .rkey = b_->mr.rkey()});
  }
  expect_trouble(qp.qpn(), "ended: a completion queue was full; the program polls too rarely, or made it too small");
}

TEST_F(ExplainTest, APermission) {
  a_.emplace(open(0));
  qa_.emplace(a_->make_qp());
  auto link = must(client::DaemonLink::open({.socket = another_program()}));
  const auto refused = link->call<message::PeerRows>(message::Op::list_peers, message::ListPeers{.device = "none"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(trouble(), "refused: " + refused.error().text);
}

TEST_F(ExplainTest, AVersionThatTheDaemonDoesNotSpeak) {
  auto connection = must(message::Connection::to(socket_, std::chrono::seconds(20)));
  std::vector<std::byte> bytes;
  message::encode(bytes, message::RequestHeader{.op = message::Op::hello, .sequence = 1});
  message::encode(bytes, message::Hello{.protocol = 1, .version = "0.0.1", .oldest_protocol = 1});
  must(connection.send(bytes, {}));
  expect_trouble(0, "refused: the application's uroce library is 0.0.1 (protocol 1, queues ");
  expect_trouble(0, "; upgrade the application's library");
}

TEST_F(ExplainTest, StaysAfterTheProgramHasGone) {
  connect();
  EXPECT_EQ(send(WrOpcode::rdma_write, 64, 1, 1), WcStatus::remote_access_error);
  const uint32_t qpn = qa_->qpn();
  const std::string text = trouble(qpn);
  qa_.reset();
  a_.reset();
  EXPECT_TRUE(world_.run_until([&] { return history({.qpn = qpn}).rows.front().gone; }));
  EXPECT_EQ(trouble(qpn), text);
}

}  // namespace
}  // namespace uroce::service
