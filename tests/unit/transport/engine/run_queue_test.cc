#include "transport/engine/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/transport/bare_qp.h"

namespace uroce::transport {
namespace {

using test::BareQp;

std::vector<uint32_t> drain(RunQueue& queue) {
  std::vector<uint32_t> out;
  while (const Qp* qp = queue.pop()) out.push_back(qp->qpn);
  return out;
}

class Running : public ::testing::Test {
 protected:
  BareQp a_{1}, b_{2}, c_{3};
  RunQueue queue_;
};

TEST_F(Running, ServesInTurn) {
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.pop(), nullptr);
  for (BareQp* qp : {&b_, &a_, &c_}) queue_.push(**qp);
  EXPECT_FALSE(queue_.empty());
  EXPECT_EQ(drain(queue_), (std::vector<uint32_t>{2, 1, 3}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Running, AQueuePairStandsInItOnce) {
  queue_.push(*a_);
  queue_.push(*b_);
  queue_.push(*a_);
  EXPECT_EQ(drain(queue_), (std::vector<uint32_t>{1, 2}));
  queue_.push(*a_);
  EXPECT_EQ(drain(queue_), std::vector<uint32_t>{1});
}

TEST_F(Running, OneThatLeavesAndComesBackIsTheLast) {
  queue_.push(*a_);
  queue_.push(*b_);
  EXPECT_EQ(queue_.pop(), &*a_);
  queue_.push(*a_);
  EXPECT_EQ(drain(queue_), (std::vector<uint32_t>{2, 1}));
}

TEST_F(Running, RemovesFromAnyPlace) {
  for (BareQp* gone : {&a_, &b_, &c_}) {
    for (BareQp* qp : {&a_, &b_, &c_}) queue_.push(**qp);
    queue_.remove(**gone);
    queue_.remove(**gone);
    std::vector<uint32_t> rest{1, 2, 3};
    std::erase(rest, (*gone)->qpn);
    queue_.push(**gone);  // behind what was last before
    rest.push_back((*gone)->qpn);
    EXPECT_EQ(drain(queue_), rest);
  }
  queue_.push(*a_);
  queue_.remove(*a_);
  EXPECT_TRUE(queue_.empty());
  queue_.push(*b_);
  EXPECT_EQ(drain(queue_), std::vector<uint32_t>{2});
}

}  // namespace
}  // namespace uroce::transport
