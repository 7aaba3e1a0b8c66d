#include "transport/qp/credits.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(CreditCode, IsTheLargestThatDoesNotPromiseTooMuch) {
  for (uint32_t receives = 0; receives <= 40000; ++receives) {
    const uint8_t code = credit_code(receives);
    ASSERT_LE(code, 30);
    ASSERT_LE(credits_of(code), receives);
    if (code < 30) {
      ASSERT_GT(credits_of(static_cast<uint8_t>(code + 1)), receives);
    }
  }
}

wire::Aeth ack(uint8_t code, uint32_t msn) { return {wire::Aeth::ack(code), msn}; }

TEST(SendCredits, AreUnlimitedUntilAnAckCarriesALimit) {
  SendCredits credits;
  for (uint32_t ssn = 1; ssn <= 1000; ++ssn) {
    EXPECT_FALSE(credits.next_exceeds());
    EXPECT_EQ(credits.next_message(), ssn);
  }
  EXPECT_FALSE(credits.exceeds(0x7fffff));
}

TEST(SendCredits, TheLimitIsTheMsnAndTheReceivesGranted) {
  SendCredits credits;
  credits.next_message();
  EXPECT_TRUE(credits.update(ack(2, 1)));  // messages 2 and 3
  EXPECT_FALSE(credits.next_exceeds());
  EXPECT_FALSE(credits.exceeds(3));
  EXPECT_TRUE(credits.exceeds(4));
  credits.next_message();
  credits.next_message();
  EXPECT_TRUE(credits.next_exceeds());
  EXPECT_FALSE(credits.update(ack(1, 2))) << "the same limit, said otherwise";
  EXPECT_TRUE(credits.update(ack(2, 2)));
  EXPECT_FALSE(credits.next_exceeds());
}

TEST(SendCredits, TheLimitMayFallAndMayEnd) {
  SendCredits credits;
  credits.update(ack(8, 0));
  EXPECT_TRUE(credits.update(ack(0, 0)));
  EXPECT_TRUE(credits.next_exceeds());
  credits.update(ack(wire::Aeth::kNoCreditLimit, 0));
  EXPECT_FALSE(credits.next_exceeds());
}

TEST(SendCredits, TheLimitWrapsWithMessageNumbers) {
  SendCredits credits;
  credits.update(ack(4, 0xfffffe));
  EXPECT_FALSE(credits.exceeds(0xffffff));
  EXPECT_FALSE(credits.exceeds(2));
  EXPECT_TRUE(credits.exceeds(3));
}

TEST(SendCredits, OnlyAcksCarryCredits) {
  SendCredits credits;
  EXPECT_FALSE(credits.update({wire::Aeth::rnr(0), 0}));
  EXPECT_FALSE(credits.update({wire::Aeth::nak(wire::NakCode::psn_sequence), 0}));
  EXPECT_FALSE(credits.next_exceeds());
}

TEST(GrantedCredits, AreCountedAnewOnceInAPeriodBeforeTheFirstReceive) {
  GrantedCredits granted;
  EXPECT_FALSE(granted.holds(0, 0));
  granted.set(0, 1, 0);
  EXPECT_TRUE(granted.holds(0, GrantedCredits::kMessages - 1));
  EXPECT_FALSE(granted.holds(0, GrantedCredits::kMessages));
  EXPECT_FALSE(granted.holds(1, 2)) << "a receive has completed";
}

TEST(GrantedCredits, OfFewReceivesAreCountedEachTime) {
  for (const uint32_t receives : {0u, 1u, 7u, 8u, 200u}) {
    GrantedCredits granted;
    granted.set(5, 9, credit_code(receives));
    EXPECT_EQ(granted.code(), credit_code(receives));
    EXPECT_EQ(granted.holds(5, 10), receives >= 8) << receives;
  }
}

}  // namespace
}  // namespace uroce::transport
