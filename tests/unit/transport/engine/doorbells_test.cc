#include "transport/engine/doorbells.h"

#include <gtest/gtest.h>

#include "tests/support/test_queues.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kEntries = 4;

TEST(Doorbells, AFullTableRefusesAnotherRing) {
  const auto memory = test::make_aligned(queues::doorbell_bytes(kEntries));
  const queues::DoorbellReader reader(memory.get(), kEntries);
  Doorbells doorbells;
  for (uint32_t id = 0; id < Doorbells::kMaxRings; ++id) ASSERT_TRUE(doorbells.attach(reader, id));
  EXPECT_FALSE(doorbells.attach(reader, Doorbells::kMaxRings));
  doorbells.detach(7);
  EXPECT_TRUE(doorbells.attach(reader, Doorbells::kMaxRings));
}

}  // namespace
}  // namespace uroce::transport
