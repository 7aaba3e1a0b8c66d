#include "transport/qp/response_queue.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

const uint8_t kAck = wire::Aeth::ack(0);
const uint8_t kNak = wire::Aeth::nak(wire::NakCode::psn_sequence);

TEST(ResponseQueue, KeepsTheNewestAck) {
  ResponseQueue queue;
  EXPECT_FALSE(queue.reply_pending());
  EXPECT_TRUE(queue.queue_reply(Psn(0xffffff), kAck).has(Outcome::kWake));
  EXPECT_TRUE(queue.queue_reply(Psn(2), kAck).has(Outcome::kWake)) << "three later, across the wrap";
  EXPECT_TRUE(queue.queue_reply(Psn(1), kAck).nothing());
  EXPECT_EQ(queue.reply_psn(), Psn(2));
  EXPECT_EQ(queue.reply_kind(), wire::AethKind::ack);
  EXPECT_TRUE(queue.queue_reply(Psn(2), kAck).has(Outcome::kWake)) << "the same once more";
}

TEST(ResponseQueue, ANakTakesThePlaceOfAnAck) {
  ResponseQueue queue;
  queue.queue_reply(Psn(5), kAck);
  EXPECT_TRUE(queue.queue_reply(Psn(6), kNak).has(Outcome::kWake));
  EXPECT_EQ(queue.reply_kind(), wire::AethKind::nak);
  EXPECT_EQ(queue.reply_psn(), Psn(6));
  EXPECT_EQ(queue.syndrome(), kNak);
  EXPECT_TRUE(queue.queue_reply(Psn(5), kAck).nothing()) << "the NAK acknowledges that too";
  EXPECT_EQ(queue.reply_kind(), wire::AethKind::nak);
  EXPECT_TRUE(queue.queue_reply(Psn(4), wire::Aeth::rnr(3)).has(Outcome::kWake)) << "what is no ACK always counts";
  EXPECT_EQ(queue.reply_kind(), wire::AethKind::rnr_nak);
}

TEST(ResponseQueue, OnceSentNothingIsRemembered) {
  ResponseQueue queue;
  queue.queue_reply(Psn(9), kAck);
  queue.on_reply_sent();
  EXPECT_FALSE(queue.reply_pending());
  EXPECT_TRUE(queue.queue_reply(Psn(3), kAck).has(Outcome::kWake)) << "a duplicate is acknowledged anew";
  EXPECT_EQ(queue.reply_psn(), Psn(3));
}

TEST(ResponseQueue, ANakCoversTheGapUntilItCloses) {
  ResponseQueue queue;
  EXPECT_FALSE(queue.gap_told());
  EXPECT_TRUE(queue.queue_gap_nak(Psn(5), kNak).has(Outcome::kWake));
  EXPECT_TRUE(queue.gap_told());
  queue.on_reply_sent();
  EXPECT_TRUE(queue.gap_told()) << "later packets get no NAK of their own";
  queue.close_gap();
  EXPECT_FALSE(queue.gap_told());
}

TEST(ResponseQueue, TheReplyWaitsForResponses) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 1);
  queue.queue_ack(Psn(7));
  EXPECT_TRUE(queue.reply_is_next());
  Resource* read = store.add();
  ASSERT_NE(read, nullptr);
  read->packets = 3;
  queue.queue_response(store, *read);
  EXPECT_TRUE(queue.has_jobs());
  EXPECT_FALSE(queue.reply_is_next());
  const ResponseJob* job = queue.next_job(store);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->end, 3u);
  queue.finish_job(store, *job, *read);
  EXPECT_FALSE(read->busy) << "its place may be used again";
  EXPECT_EQ(queue.next_job(store), nullptr);
  EXPECT_TRUE(queue.reply_is_next());
}

TEST(ResponseQueue, ADuplicateExtendsTheJobThatIsQueuedForIt) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 2);
  Resource* read = store.add();
  ASSERT_NE(read, nullptr);
  read->packets = 8;
  EXPECT_TRUE(queue.queue_again(store, *read, 2, 4));
  EXPECT_FALSE(queue.queue_again(store, *read, 2, 3)) << "that is covered";
  EXPECT_FALSE(queue.queue_again(store, *read, 1, 6));
  ResponseJob* job = queue.next_job(store);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->next, 1u);
  EXPECT_EQ(job->end, 6u);
  job->next = 5;
  EXPECT_TRUE(queue.queue_again(store, *read, 1, 3)) << "those have been sent, so they need a job of their own";
}

TEST(ResponseQueue, AJobThatWasGivenUpIsSkipped) {
  ReplayStore store;
  ResponseQueue queue;
  queue.resize(store, 1);
  Resource* read = store.add();
  ASSERT_NE(read, nullptr);
  read->packets = 1;
  read->busy = false;
  EXPECT_TRUE(queue.queue_again(store, *read, 0, 1));
  ASSERT_NE(store.add(), nullptr) << "the peer has gone on";
  EXPECT_EQ(queue.next_job(store), nullptr);
  EXPECT_FALSE(queue.has_jobs());
}

}  // namespace
}  // namespace uroce::transport
