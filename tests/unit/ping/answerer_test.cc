// The bounds of an Answerer, towards peers that keep to nothing.
#include "ping/answerer.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "strangers.h"

namespace uroce::ping {
namespace {

using namespace std::chrono_literals;
using cm::CmEventKind;
using test::address;
using test::must;
using test::Side;
using test::Strangers;
using test::World;

class AnswererTest : public testing::Test {
 protected:
  AnswererTest() {
    world_.add({.gids = {World::gid(0), address(1), address(2), address(3)}});
    world_.add();
    manager_ = must(cm::Manager::start({world_.device(1)}, 7));
    strangers_ = std::make_unique<Strangers>(world_.device(0));
  }
  ~AnswererTest() override {
    answerer_.reset();
    strangers_.reset();
    manager_.reset();
    world_.stop();
  }

  /// Where `limits` has the usual times, peers may be slow: on a busy machine they are.
  void listen(AnswerLimits limits) {
    constexpr AnswerLimits kUsual;
    if (limits.setup == kUsual.setup) limits.setup = 10min;
    if (limits.silence == kUsual.silence) limits.silence = 10min;
    if (limits.stay == kUsual.stay) limits.stay = 10min;
    const auto open = [this](const std::string&) -> Result<Context> {
      return Context(must(client::make_in_process_context(world_.device(1))));
    };
    answerer_ = must(Answerer::listen(connections(), open, [this] { return addresses_; }, limits));
  }
  ConnectionManager connections() { return ConnectionManager(client::make_in_process_cm(*manager_, world_.device(1))); }
  /// The answering device's second one.
  Gid other_address() const { return world_.device(1)->gids().at(1); }
  /// One look of each side.
  void turn() {
    strangers_->turn();
    EXPECT_TRUE(answerer_->serve(-1, 0ms));
  }
  template <class Done>
  void until(Done done) {
    const bool came = world_.run_until([&] {
      turn();
      return done();
    });
    if (!came) throw std::runtime_error("what the test waits for did not come");
  }
  /// Whether the answerer accepts the request.
  bool accepts(const Strangers::Request& request) {
    const uint32_t id = strangers_->ask(request);
    until([&] { return strangers_->event(id) != nullptr; });
    const CmEventKind kind = strangers_->event(id)->kind;
    if (kind == CmEventKind::reply) strangers_->ready(id);
    EXPECT_TRUE(kind == CmEventKind::reply || kind == CmEventKind::rejected);
    return kind == CmEventKind::reply;
  }

  /// A queue pair of the first device's first address, which the answerer has accepted.
  struct Visitor {
    explicit Visitor(const std::shared_ptr<control::Device>& device) : side(device), qp(side.make_qp()) {}
    Side side;
    QueuePair qp;
  };
  std::unique_ptr<Visitor> visit() {
    auto visitor = std::make_unique<Visitor>(world_.device(0));
    const uint32_t id = strangers_->ask({.from = World::gid(0), .qpn = visitor->qp.qpn()});
    until([&] { return strangers_->event(id) != nullptr; });
    const cm::CmReply& reply = strangers_->event(id)->reply;
    must(visitor->qp.connect({.gid = World::gid(1), .qpn = reply.qpn}, {.psn = reply.psn}));
    strangers_->ready(id);
    return visitor;
  }
  WcStatus end_of(Visitor& visitor) {
    Completion completion{};
    until([&] { return visitor.side.cq.poll({&completion, 1}) == 1; });
    return completion.status;
  }

  World world_{World::Mode::threaded};
  std::unique_ptr<cm::Manager> manager_;
  std::unique_ptr<Strangers> strangers_;
  std::vector<Gid> addresses_{World::gid(1)};
  std::unique_ptr<Answerer> answerer_;
};

TEST_F(AnswererTest, ADeviceHasSoManyPeers) {
  listen({.peers = 3, .of_one_address = 3});
  for (uint32_t n = 1; n <= 3; ++n) EXPECT_TRUE(accepts({.from = address(n)})) << n;
  EXPECT_FALSE(accepts({.from = World::gid(0)}));
}

// One host took all places: the bound counted the addresses that the requests' private data named.
TEST_F(AnswererTest, AnAddressHasSoManyOfThemWhateverItSaysOfItself) {
  listen({.peers = 16, .of_one_address = 2});
  EXPECT_TRUE(accepts({.from = address(1), .claims = Gid::from_ipv4(0x0b000001)}));
  EXPECT_TRUE(accepts({.from = address(1), .claims = Gid::from_ipv4(0x0b000002)}));
  EXPECT_FALSE(accepts({.from = address(1), .claims = Gid::from_ipv4(0x0b000003)}));
  EXPECT_TRUE(accepts({.from = address(2), .claims = Gid::from_ipv4(0x0b000001)})) << "another host";
  EXPECT_TRUE(accepts({.from = address(3), .claims = address(1)})) << "in the name of the full one";
}

// It listened at all addresses, those of devices that do not answer among them.
TEST_F(AnswererTest, TakesThePortOfItsAddressesAlone) {
  ConnectionManager others = connections();
  const CmChannel channel = must(others.create_channel());
  CmId other = must(others.create_id(channel, PortSpace::tcp, QpType::rc));
  must(other.bind({other_address(), kPort}));
  addresses_.push_back(other_address());
  listen({});
  EXPECT_EQ(answerer_->addresses(), std::vector{World::gid(1)});
}

TEST_F(AnswererTest, SaysThatSomebodyHasAllItsPorts) {
  ConnectionManager others = connections();
  const CmChannel channel = must(others.create_channel());
  CmId other = must(others.create_id(channel, PortSpace::tcp, QpType::rc));
  must(other.bind({World::gid(1), kPort}));
  const auto refused = Answerer::listen(connections(), {}, [this] { return addresses_; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EADDRINUSE);
}

TEST_F(AnswererTest, FollowsItsAddresses) {
  listen({});
  addresses_ = {other_address(), Gid{}};
  until([&] { return answerer_->addresses() != std::vector{World::gid(1)}; });
  EXPECT_EQ(answerer_->addresses(), std::vector{other_address()});
  EXPECT_FALSE(accepts({.from = address(1)}));
}

TEST_F(AnswererTest, NewPeersBeyondTheRateAreRejected) {
  listen({.new_peers_per_second = 0});
  EXPECT_FALSE(accepts({.from = address(1)}));
}

TEST_F(AnswererTest, APeerThatHasStayedIsDisconnected) {
  listen({.peers = 1, .stay = 0s});
  const uint32_t id = strangers_->ask({.from = address(1)});
  until([&] { return strangers_->event(id) != nullptr && strangers_->event(id)->kind == CmEventKind::reply; });
  strangers_->ready(id);
  until([&] { return strangers_->event(id)->kind != CmEventKind::reply; });
  until([&] { return accepts({.from = address(2)}); });
}

TEST_F(AnswererTest, ARequestThatIsNotCompletedIsForgotten) {
  listen({.peers = 1, .setup = 1s});
  const uint32_t id = strangers_->ask({.from = address(1)});
  until([&] { return strangers_->event(id) != nullptr && strangers_->event(id)->kind == CmEventKind::reply; });
  until([&] { return accepts({.from = address(2)}); });
}

TEST_F(AnswererTest, AMessageComesBack) {
  listen({});
  const auto peer = visit();
  const Sge to = peer->side.mr.sge(64, 64), from = peer->side.mr.sge(0, 64);
  peer->side.memory[7] = std::byte{42};
  ASSERT_EQ(peer->qp.post_recv({.sges = {&to, 1}}), 0);
  ASSERT_EQ(peer->qp.post_send({.opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&from, 1}}), 0);
  EXPECT_EQ(end_of(*peer), WcStatus::success);
  EXPECT_EQ(end_of(*peer), WcStatus::success);
  EXPECT_EQ(peer->side.memory[64 + 7], std::byte{42});
}

TEST_F(AnswererTest, MessagesAboveTheRateWait) {
  listen({.messages_per_second = 1});
  const auto peer = visit();
  const Sge sge = peer->side.mr.sge(0, 64);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(peer->qp.post_recv({.sges = {&sge, 1}}), 0);
    ASSERT_EQ(peer->qp.post_send({.opcode = WrOpcode::send, .sges = {&sge, 1}}), 0);
    EXPECT_EQ(end_of(*peer), WcStatus::success);
  }
  EXPECT_GE(std::chrono::steady_clock::now() - began, 1s) << "not before";
}

// It took a receive, and was counted as no message.
TEST_F(AnswererTest, APeerMayNotWriteEvenNothing) {
  listen({});
  for (const WrOpcode opcode : {WrOpcode::rdma_write, WrOpcode::rdma_write_with_imm}) {
    const auto peer = visit();
    ASSERT_EQ(peer->qp.post_send({.opcode = opcode, .flags = SendFlag::signaled}), 0);
    EXPECT_EQ(end_of(*peer), WcStatus::remote_invalid_request);
  }
}

}  // namespace
}  // namespace uroce::ping
