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

}  // namespace
}  // namespace uroce::transport
