// The geometry of messages: what is out at once never shares memory where bytes are checked.
#include "perf/plan.h"

#include <gtest/gtest.h>

#include "options_for.h"

namespace uroce::perf {
namespace {

TEST(Plan, SmallMessagesGoRoundAPageAndLargeOnesShareAPlace) {
  const Options o = options_for({"uroce_write_bw", "--", "-s", "8"});
  const Plan small = plan_for(o, 8, 4096);
  EXPECT_EQ(small.stride, 64u);
  EXPECT_EQ(small.ring, 64u);
  EXPECT_EQ(plan_for(o, 65536, 65536).ring, 1u);
}

TEST(Plan, FitsIntoWhatThePeerExposes) {
  for (const bool verify : {false, true}) {
    for (const char* depth : {"1", "7", "128", "15000"}) {
      std::vector<const char*> words{"uroce_write_bw", "--", "-t", depth, "-n", "100000", "-s", "8"};
      if (verify) words.push_back("--verify");
      Options o = options_for(words);
      for (uint64_t size = 1; size <= 8 << 20; size = size * 3 + 1) {
        for (const uint64_t exposed : {uint64_t{64} << 10, uint64_t{16} << 20}) {
          if (size > exposed) continue;
          const Plan p = plan_for(o, size, exposed);
          EXPECT_LE(p.stride * p.ring, exposed);
          EXPECT_GE(p.stride, size);
          EXPECT_GE(p.ring, 1u);
          EXPECT_GE(p.depth, 1u);
          EXPECT_LE(p.cq_mod, p.depth);
          if (verify) {
            EXPECT_LE(p.depth, p.ring);
          }
        }
      }
    }
  }
}

TEST(Plan, VerifiedRoundsEndWithACompletion) {
  for (const char* moderation : {"1", "3", "100"}) {
    const Options o = options_for({"uroce_write_bw", "--", "--verify", "-s", "64", "-Q", moderation});
    const Plan p = plan_for(o, 64, 1 << 20);
    EXPECT_EQ(p.ring % p.cq_mod, 0u);
    EXPECT_GE(p.ring, 64u);
  }
}

TEST(Plan, MemoryIsEnoughForEverySizeOfAll) {
  for (const char* test : {"uroce_write_bw", "uroce_read_bw", "uroce_send_bw", "uroce_send_lat"}) {
    for (const bool verify : {false, true}) {
      std::vector<const char*> words{test, "--", "-a"};
      if (verify) words.push_back("--verify");
      const Options o = options_for(words);
      for (const uint64_t size : o.sizes()) {
        const Plan p = plan_for(o, size, exposed_bytes(o));
        EXPECT_LE(p.stride * p.ring, local_bytes(o));
      }
      const ReceivePlan r = receive_plan(o);
      EXPECT_EQ(r.capacity, kMaxAllSize);
      if (o.test.verb == Verb::send) {
        EXPECT_LE(r.stride * r.slots, exposed_bytes(o));
      }
    }
  }
}

TEST(ReceivePlan, EachReceiveOfAVerifiedRunHasItsOwnPlace) {
  const ReceivePlan p = receive_plan(options_for({"uroce_send_bw", "--", "--verify", "-s", "1M", "-n", "10000"}));
  EXPECT_EQ(p.slots, p.depth);
  EXPECT_LE(p.stride * p.slots, 128u << 20);
}

}  // namespace
}  // namespace uroce::perf
