#include "transport/engine/fair_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/unit/transport/bare_qp.h"

namespace uroce::transport {
namespace {

using test::BareQp;

constexpr uint32_t kWork = 6000;  // of a turn, where more is allowed

class Sharing : public ::testing::Test {
 protected:
  // Gives `client` of `user` `count` queue pairs that always wait.
  void add(uint16_t client, uint16_t user, uint32_t count, uint32_t weight = 1) {
    queue_.set_user(client, user, weight);
    for (uint32_t i = 0; i < count; ++i) {
      auto& qp = *qps_.emplace_back(std::make_unique<BareQp>(static_cast<uint32_t>(qps_.size() + 1)));
      qp->tx.owner = client;
      queue_.push(*qp);
    }
  }
  // Each client's work after `turns` turns.
  std::map<uint16_t, uint64_t> serve(uint32_t turns, uint32_t work = kWork) {
    std::map<uint16_t, uint64_t> done;
    for (uint32_t i = 0; i < turns; ++i) {
      Qp* qp = queue_.pop();
      const uint32_t did = std::min(work, queue_.allowance());
      done[qp->tx.owner] += did;
      queue_.push(*qp);
      queue_.charge(did);
    }
    return done;
  }
  static double share(const std::map<uint16_t, uint64_t>& done, uint16_t client) {
    uint64_t all = 0;
    for (const auto& [number, work] : done) all += work;
    return static_cast<double>(done.at(client)) / static_cast<double>(all);
  }

  std::vector<std::unique_ptr<BareQp>> qps_;
  RunQueue queue_;
};

TEST_F(Sharing, AThousandQueuePairsGetNoMoreThanOne) {
  add(1, 1, 1);
  add(2, 2, 1000);
  EXPECT_NEAR(share(serve(20'000), 1), 0.5, 0.03) << "those of the other user also pay for changing queue pairs";
}

TEST_F(Sharing, TwoClientsOfOneUserShareItsPart) {
  add(1, 1, 1);
  add(2, 2, 1);
  add(3, 2, 100);
  const auto done = serve(20'000);
  EXPECT_NEAR(share(done, 1), 0.5, 0.02);
  EXPECT_NEAR(share(done, 2), 0.25, 0.02);
  EXPECT_NEAR(share(done, 3), 0.25, 0.02);
}

TEST_F(Sharing, AUserWithManyClientsGetsNoMore) {
  add(1, 1, 1);
  for (uint16_t client = 2; client < 200; ++client) add(client, 2, 2);
  EXPECT_NEAR(share(serve(20'000), 1), 0.5, 0.05) << "those of the other user also pay for changing queue pairs";
}

TEST_F(Sharing, AWeightIsAShare) {
  add(1, 1, 4, 3);
  add(2, 2, 4, 1);
  EXPECT_NEAR(share(serve(20'000), 1), 0.75, 0.02);
}

TEST_F(Sharing, WhoDoesLittleWorkPerTurnGetsMoreTurns) {
  add(1, 1, 1);
  add(2, 2, 1);
  std::map<uint16_t, uint64_t> done;
  for (uint32_t i = 0; i < 20'000; ++i) {
    Qp* qp = queue_.pop();
    const uint32_t did = qp->tx.owner == 1 ? 2048 : 20'480;
    done[qp->tx.owner] += did;
    queue_.push(*qp);
    queue_.charge(did);
  }
  EXPECT_NEAR(share(done, 1), 0.5, 0.05) << "a turn itself costs little";
}

// A thousand queue pairs with a message of 8 bytes each miss the caches a thousand times, one with a thousand does not.
TEST_F(Sharing, AClientPaysForChangingFromOneQueuePairToAnother) {
  constexpr uint32_t kMessage = 2048;
  add(1, 1, 1);
  add(2, 2, 1000);
  std::map<uint16_t, double> turns;
  for (uint32_t i = 0; i < 20'000; ++i) {
    Qp* qp = queue_.pop();
    ++turns[qp->tx.owner];
    // It comes again after it has sent everything.
    queue_.charge(kMessage);
    queue_.push(*qp);
  }
  EXPECT_NEAR(turns[1] / turns[2], 1.0 * (kMessage + work::kTurn + work::kChange) / (kMessage + work::kTurn), 0.1);
}

TEST_F(Sharing, WorkWithoutATurnShortensTurnsByHalfAtMost) {
  add(1, 1, 1);
  add(2, 2, 1);
  std::map<uint16_t, uint64_t> done;
  for (uint32_t i = 0; i < 20'000; ++i) {
    queue_.owe(2, 1'000'000);
    for (const auto& [client, work] : serve(1)) done[client] += work;
  }
  EXPECT_NEAR(share(done, 2), 1.0 / 3, 0.03);
}

TEST_F(Sharing, OneThatIsAloneIsNotLimitedAndOwesNothingLater) {
  add(1, 1, 1);
  for (uint32_t i = 0; i < 100; ++i) {
    Qp* qp = queue_.pop();
    EXPECT_EQ(queue_.allowance(), work::kUnlimited);
    queue_.push(*qp);
    queue_.charge(1'000'000);
  }
  add(2, 2, 1);
  EXPECT_NEAR(share(serve(100), 1), 0.5, 0.1);
}

TEST_F(Sharing, QueuePairsOfOneClientGetTurnsOfBoundedWork) {
  add(1, 1, 2);
  static_cast<void>(queue_.pop());
  EXPECT_EQ(queue_.allowance(), work::kQpTurn);
}

TEST_F(Sharing, OneThatComesIsServedAfterAQuantum) {
  add(2, 2, 1000);
  serve(100);
  add(1, 1, 1);
  uint64_t before = 0;
  for (;;) {
    Qp* qp = queue_.pop();
    if (qp->tx.owner == 1) break;
    before += std::min(kWork, queue_.allowance());
    queue_.push(*qp);
    queue_.charge(std::min(kWork, queue_.allowance()));
  }
  EXPECT_LE(before, work::kQuantum + kWork);
}

TEST_F(Sharing, OneThatComesWithoutADebtGoesFirst) {
  add(2, 2, 10);
  add(3, 3, 10);
  serve(100);
  add(1, 1, 1);
  Qp* qp = queue_.pop();
  EXPECT_EQ(qp->tx.owner, 1);
  // It takes much at once, leaves, and comes again: the others go first until that is paid.
  queue_.charge(20 * work::kQuantum);
  for (const auto& [client, done] : serve(10)) EXPECT_NE(client, 1);
  queue_.push(*qp);
  for (const auto& [client, done] : serve(10)) EXPECT_NE(client, 1);
}

TEST_F(Sharing, PollsAreShortWhileAClientSendsLittle) {
  add(2, 2, 10);
  add(3, 3, 10);
  serve(100);
  EXPECT_EQ(queue_.poll_allowance(), work::kSharedPoll);
  queue_.set_user(1, 1, 1);
  BareQp pings(5000);
  pings->tx.owner = 1;
  queue_.push(*pings);
  for (;;) {
    Qp* qp = queue_.pop();
    if (qp != &*pings) queue_.push(*qp);
    queue_.charge(qp == &*pings ? 100 : kWork);
    if (qp == &*pings) break;
  }
  serve(100);
  EXPECT_EQ(queue_.poll_allowance(), work::kSparsePoll);
  for (int polls = 0; polls < 2000; ++polls) static_cast<void>(queue_.poll_allowance());
  EXPECT_EQ(queue_.poll_allowance(), work::kSharedPoll) << "it has not come back";
}

// Clients that come and go leave nothing behind.
TEST_F(Sharing, ClientsLeaveWithWhatWaited) {
  add(1, 1, 3);
  add(2, 2, 3);
  for (auto& qp : qps_) queue_.remove(**qp);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.pop(), nullptr);
  queue_.set_user(2, 1, 1);
  queue_.push(**qps_[4]);
  queue_.push(**qps_[0]);
  EXPECT_NE(queue_.pop(), nullptr);
  EXPECT_NE(queue_.pop(), nullptr);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace uroce::transport
