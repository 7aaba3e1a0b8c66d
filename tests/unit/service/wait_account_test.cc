#include "service/wait_account.h"

#include <gtest/gtest.h>

namespace uroce::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = WaitAccount::Verdict;

constexpr seconds kPenalty{60};
constexpr uint32_t kFirst = 1001, kSecond = 1002;

TEST(WaitAccount, AllowsLittle) {
  WaitAccount account;
  const WaitAccount::Time now{};
  EXPECT_EQ(account.note(kFirst, WaitAccount::kAllowance, now, kPenalty), Verdict::allowed);
  EXPECT_FALSE(account.refused(kFirst, now, kPenalty));
  // Not again within the time, in however small parts.
  EXPECT_EQ(account.note(kFirst, Nanos(1), now + kPenalty / 2, kPenalty), Verdict::cut_process);
  EXPECT_TRUE(account.refused(kFirst, now + kPenalty / 2, kPenalty));
  EXPECT_FALSE(account.refused(kSecond, now + kPenalty / 2, kPenalty));
}

TEST(WaitAccount, ForgetsAfterTheTime) {
  WaitAccount account;
  WaitAccount::Time now{};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(account.note(kFirst, WaitAccount::kAllowance, now, kPenalty), Verdict::allowed);
    now += kPenalty;
  }
}

TEST(WaitAccount, TakesAllFromAUserThatGoesOn) {
  WaitAccount account;
  const WaitAccount::Time now{};
  EXPECT_EQ(account.note(kFirst, seconds(1), now, kPenalty), Verdict::cut_process);
  EXPECT_EQ(account.note(kFirst, Nanos(1), now + milliseconds(1), kPenalty), Verdict::cut_user);
  EXPECT_EQ(account.note(kSecond, seconds(1), now + milliseconds(1), kPenalty), Verdict::cut_process);
  const auto end = now + milliseconds(1) + kPenalty;
  EXPECT_TRUE(account.refused(kFirst, end - Nanos(1), kPenalty));
  EXPECT_FALSE(account.refused(kFirst, end, kPenalty));
  EXPECT_EQ(account.note(kFirst, seconds(1), end, kPenalty), Verdict::cut_process) << "it begins anew";
}

TEST(WaitAccount, DoesNothingWithoutAPenalty) {
  WaitAccount account;
  EXPECT_EQ(account.note(kFirst, seconds(100), {}, seconds(0)), Verdict::allowed);
  EXPECT_FALSE(account.refused(kFirst, {}, seconds(0)));
}

}  // namespace
}  // namespace uroce::service
