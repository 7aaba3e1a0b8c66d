#include "transport/datagram/address_handles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace uroce::transport {
namespace {

AddressHandle towards(uint32_t host, memory::PdId pd = 1) {
  const Gid dgid = Gid::from_ipv4(0x0a000000 + host);
  const wire::Route route{.sgid = Gid::from_ipv4(0x0a000001), .dgid = dgid};
  return {.pd = pd, .route = wire::make_template(route), .dgid = dgid};
}

TEST(AddressHandleTable, FindsWhatWasAddedInItsDomain) {
  AddressHandleTable table;
  const auto a = table.add(towards(2));
  const auto b = table.add(towards(3, 7));
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(table.used(), 2u);
  ASSERT_NE(table.find(*a, 1), nullptr);
  EXPECT_EQ(table.find(*a, 1)->dgid, Gid::from_ipv4(0x0a000002));
  EXPECT_EQ(table.find(*b, 7)->dgid, Gid::from_ipv4(0x0a000003));
  EXPECT_EQ(table.find(*b, 1), nullptr) << "another domain's";
}

TEST(AddressHandleTable, FindsNothingElse) {
  AddressHandleTable table;
  const auto id = table.add(towards(2));
  // Numbers that an application may write into a work request.
  for (const uint32_t wrong : {0u, 1u, *id - 1, *id + 1, *id ^ 0x80000000u, 0xffffu, 0xffffffffu, *id + 0x10000u}) {
    EXPECT_EQ(table.find(wrong, 1), nullptr) << wrong;
    EXPECT_FALSE(table.remove(wrong)) << wrong;
  }
  EXPECT_NE(table.find(*id, 1), nullptr);
}

TEST(AddressHandleTable, ARemovedNumberIsNeverRightAgain) {
  AddressHandleTable table;
  std::set<AddressHandleId> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto id = table.add(towards(2));
    ASSERT_TRUE(id);
    EXPECT_TRUE(seen.insert(*id).second);
    EXPECT_TRUE(table.remove(*id));
    EXPECT_FALSE(table.remove(*id));
    EXPECT_EQ(table.find(*id, 1), nullptr);
    table.retire(*id);
  }
  EXPECT_EQ(table.used(), 0u);
}

TEST(AddressHandleTable, ASlotRestsUntilItsHandleIsRetired) {
  AddressHandleTable table;
  const auto first = table.add(towards(2));
  const AddressHandle* seen_by_engine = table.find(*first, 1);
  table.remove(*first);
  const auto second = table.add(towards(3));
  EXPECT_EQ(seen_by_engine->dgid, Gid::from_ipv4(0x0a000002));
  EXPECT_NE(table.find(*second, 1), seen_by_engine);
  table.retire(*first);
  table.retire(*first);
  const auto third = table.add(towards(4));
  EXPECT_EQ(table.find(*third, 1), seen_by_engine);
  const auto fourth = table.add(towards(5));
  EXPECT_NE(table.find(*fourth, 1), seen_by_engine) << "retiring twice frees once";
}

TEST(AddressHandleTable, IsFullAtItsCapacity) {
  AddressHandleTable table;
  std::vector<AddressHandleId> ids;
  for (uint32_t i = 0; i < AddressHandleTable::kCapacity; ++i) {
    const auto id = table.add(towards(2));
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  EXPECT_FALSE(table.add(towards(2)));
  table.remove(ids[700]);
  EXPECT_FALSE(table.add(towards(2))) << "not before it is retired";
  table.retire(ids[700]);
  EXPECT_TRUE(table.add(towards(2)));
}

TEST(AddressHandleTable, ReadersNeverSeeHalfAHandle) {
  AddressHandleTable table;
  std::atomic<AddressHandleId> current{*table.add(towards(1))};
  std::atomic<bool> stop{false};
  // The reader says when it has come between two bursts, as an engine does by running a task.
  std::atomic<uint64_t> rounds{0};
  std::thread reader([&] {
    while (!stop) {
      const AddressHandleId id = current;
      const AddressHandle* handle = table.find(id, 1);
      if (handle != nullptr) {
        const std::byte* ip = handle->route.bytes.data() + handle->route.l3_offset;
        EXPECT_EQ(load_be32(ip + 16), handle->dgid.ipv4());
      }
      ++rounds;
    }
  });
  for (uint32_t i = 2; i < 4000; ++i) {
    const AddressHandleId old = current;
    table.remove(old);
    current = *table.add(towards(i));
    if (i % 64 != 0) continue;
    const uint64_t before = rounds;
    while (rounds < before + 2) std::this_thread::yield();
    table.retire(old);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace uroce::transport
