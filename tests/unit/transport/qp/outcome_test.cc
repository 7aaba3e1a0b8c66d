#include "transport/qp/outcome.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(Outcome, BeginsAsNothing) {
  EXPECT_TRUE(Outcome().nothing());
  EXPECT_TRUE(Outcome::wake_if(false).nothing());
  EXPECT_FALSE(Outcome::wake_if(true).nothing());
  EXPECT_FALSE(Outcome().failed());
  EXPECT_EQ(Outcome().failure(), Failure::none);
}

TEST(Outcome, MergesActions) {
  Outcome out = Outcome::wake() | Outcome::act(Outcome::kAckTimer);
  out |= Outcome::act(Outcome::kHelloTimer);
  out |= Outcome();
  EXPECT_TRUE(out.has(Outcome::kWake));
  EXPECT_TRUE(out.has(Outcome::kAckTimer));
  EXPECT_TRUE(out.has(Outcome::kHelloTimer));
  EXPECT_FALSE(out.has(Outcome::kPacingTimer));
  EXPECT_FALSE(out.has(Outcome::kReport));
  EXPECT_FALSE(out.failed());
}

TEST(Outcome, AFailureCarriesItsStatus) {
  const Outcome out = Outcome::wake() | Outcome::fail(Failure::requester, WcStatus::retry_exceeded);
  EXPECT_TRUE(out.failed());
  EXPECT_EQ(out.failure(), Failure::requester);
  EXPECT_EQ(out.status(), WcStatus::retry_exceeded);
  EXPECT_TRUE(out.has(Outcome::kWake));
  EXPECT_FALSE(out.has(Outcome::kReport));
}

TEST(Outcome, AFailureMayCarryAnEvent) {
  const Outcome out = Outcome::fail(Failure::responder, AsyncEventType::qp_access_error);
  EXPECT_EQ(out.failure(), Failure::responder);
  EXPECT_TRUE(out.has(Outcome::kReport));
  EXPECT_EQ(out.event(), AsyncEventType::qp_access_error);
}

TEST(Outcome, TheFirstFailureStands) {
  const Outcome first = Outcome::fail(Failure::requester, WcStatus::rnr_retry_exceeded);
  const Outcome later = Outcome::wake() | Outcome::fail(Failure::send_queue, WcStatus::flushed);
  const Outcome out = first | later;
  EXPECT_EQ(out.failure(), Failure::requester);
  EXPECT_EQ(out.status(), WcStatus::rnr_retry_exceeded);
  EXPECT_TRUE(out.has(Outcome::kWake)) << "actions of both";
}

TEST(Outcome, TheFirstReportStands) {
  Outcome out = Outcome::fail(Failure::responder, AsyncEventType::qp_access_error);
  out |= Outcome::fail(Failure::responder, AsyncEventType::qp_fatal);
  EXPECT_EQ(out.event(), AsyncEventType::qp_access_error);
}

TEST(Outcome, AFailureWithoutAReportTakesALaterOne) {
  Outcome out = Outcome::fail(Failure::cq_overrun);
  out |= Outcome::fail(Failure::responder, AsyncEventType::qp_request_error);
  EXPECT_EQ(out.failure(), Failure::cq_overrun);
  EXPECT_TRUE(out.has(Outcome::kReport));
  EXPECT_EQ(out.event(), AsyncEventType::qp_request_error);
}

}  // namespace
}  // namespace uroce::transport
