// A planned restart: keys and queue pair numbers of the past stay dead.
#include <gtest/gtest.h>

#include "control/object_registry.h"
#include "succession_fixture.h"

namespace uroce::service {
namespace {

bool same(const control::DeviceNumbers& a, const control::DeviceNumbers& b) {
  bool qpns = a.qpns.size() == b.qpns.size();
  for (std::size_t i = 0; qpns && i < a.qpns.size(); ++i) {
    qpns = a.qpns[i].permutation == b.qpns[i].permutation && a.qpns[i].fresh == b.qpns[i].fresh &&
           a.qpns[i].uses == b.qpns[i].uses && a.qpns[i].free == b.qpns[i].free;
  }
  return qpns && a.keys.permutation == b.keys.permutation && a.keys.uses == b.keys.uses && a.keys.free == b.keys.free &&
         a.last_flow == b.last_flow;
}

TEST_F(SuccessionTest, NumbersGoOnWhereTheyWere) {
  for (int i = 0; i < 20; ++i) {
    auto qp = client_->make_qp();
    auto window = must(client_->pd.create_memory_window(WindowType::type2));
    auto mr = must(client_->pd.register_memory(client_->memory.data(), 4096, Side::kAll));
  }
  auto kept = client_->make_qp();
  (void)must(client_->context.create_pd());  // what destroys has no reply, and is done before this has
  const auto before = world_.device(0)->objects().numbers();
  ASSERT_NE(before.qpns[0].fresh + before.qpns[1].fresh, 0u);
  hand_over();
  EXPECT_TRUE(same(before, world_.device(2)->objects().numbers()));
  hand_over();
  EXPECT_TRUE(same(before, world_.device(3)->objects().numbers()));
}

TEST_F(SuccessionTest, TheDaemonsOwnKeyIsNoClients) {
  Side daemons_own(world_.device(0));
  const auto local = [](Side& side) {
    return must(side.pd.register_memory(side.memory.data(), 4096, Access::local_write));
  };
  auto first = local(daemons_own);
  EXPECT_EQ(first.lkey() >> 24, 0u);
  std::vector<MemoryRegion> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(local(*client_));
    EXPECT_NE(all.back().lkey() >> 24, 0u);
  }
  EXPECT_EQ(hand_over([&] { Side next_daemons_own(world_.device(2)); }).refused, 0u);
}

}  // namespace
}  // namespace uroce::service
