#include "transport/engine/owners.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

TEST(Owners, RingsWithoutAUserAreOneClient) {
  Owners owners;
  EXPECT_EQ(owners.add(7, {}), Owners::kOwnProcess);
  EXPECT_EQ(owners.add(8, {}), Owners::kOwnProcess);
  EXPECT_EQ(owners.add_qp(7), Owners::kOwnProcess);
  EXPECT_EQ(owners.add_qp(99), Owners::kOwnProcess) << "an unknown ring";
  EXPECT_FALSE(owners.shared());
}

TEST(Owners, ClientsOfOneUserHaveItsNumber) {
  Owners owners;
  const uint16_t a = owners.add(1, {.user = 1000});
  const uint16_t b = owners.add(2, {.user = 1000, .weight = 5});
  const uint16_t c = owners.add(3, {.user = 0, .weight = 1'000'000});
  EXPECT_NE(a, b);
  EXPECT_EQ(owners.client(a).user, owners.client(b).user);
  EXPECT_NE(owners.client(a).user, owners.client(c).user);
  EXPECT_EQ(owners.weight_of(owners.client(a).user), 5u) << "the last one counts";
  EXPECT_EQ(owners.weight_of(owners.client(c).user), Owner::kMaxWeight);
}

TEST(Owners, TheEngineIsSharedOnceTwoClientsHaveQueuePairs) {
  Owners owners;
  owners.add(1, {.user = 1000});
  owners.add(2, {.user = 1000});
  const uint16_t a = owners.add_qp(1);
  owners.add_qp(1);
  EXPECT_FALSE(owners.shared());
  const uint16_t b = owners.add_qp(2);
  EXPECT_TRUE(owners.shared());
  owners.remove_qp(a);
  EXPECT_TRUE(owners.shared());
  owners.remove_qp(b);
  EXPECT_FALSE(owners.shared());
}

TEST(Owners, NumbersComeBackOnceNobodyUsesThem) {
  Owners owners;
  const uint16_t a = owners.add(1, {.user = 1000});
  owners.add_qp(1);
  owners.remove(1);
  EXPECT_NE(owners.add(2, {.user = 1001}), a) << "it still has a queue pair";
  owners.remove_qp(a);
  EXPECT_EQ(owners.add(3, {.user = 1002}), a);
}

TEST(Owners, ThereIsRoomForEveryRing) {
  Owners owners;
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t ring = 1; ring < Owners::kMaxClients; ++ring) {
      EXPECT_LT(owners.add(ring, {.user = ring}), Owners::kMaxClients);
    }
    for (uint32_t ring = 1; ring < Owners::kMaxClients; ++ring) owners.remove(ring);
  }
}

}  // namespace
}  // namespace uroce::transport
