#include "memory/region_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace uroce::memory {
namespace {

constexpr AccessFlags kAll =
    AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read | Access::remote_atomic;

class RegionTableTest : public testing::Test {
 protected:
  RegionSpec spec(uint64_t address, uint64_t length, AccessFlags access = kAll, PdId pd = 7) {
    return {.pd = pd, .address = address, .length = length, .host = buffer_.data(), .access = access};
  }
  AccessResult check(Key key, uint64_t address, uint64_t length, AccessFlags needed = {}, PdId pd = 7) {
    return table_.translate(key, pd, address, length, needed).result;
  }

  RegionTable table_{16, 1};
  std::array<std::byte, 4096> buffer_{};
};

TEST_F(RegionTableTest, TranslatesToTheBytesOfTheRegion) {
  const Key key = table_.add(spec(0x10000, 4096)).value();
  for (uint64_t offset : {0, 1, 4095}) {
    const Translation t = table_.translate(key, 7, 0x10000 + offset, 1, Access::remote_read);
    EXPECT_EQ(t.result, AccessResult::ok);
    EXPECT_EQ(t.host, buffer_.data() + offset);
  }
  EXPECT_EQ(table_.translate(key, 7, 0x10000, 4096, {}).host, buffer_.data());
}

TEST_F(RegionTableTest, RefusesAccessOutsideTheRegion) {
  const Key key = table_.add(spec(0x10000, 4096)).value();
  EXPECT_EQ(check(key, 0xffff, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0xffff, 2), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0x11000, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0x10fff, 2), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0x10000, 4097), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0, 1), AccessResult::out_of_bounds);
}

TEST_F(RegionTableTest, ANullRegionReadsAsZerosAndTakesNothing) {
  const Key key = table_.add_null(7).value();
  for (const uint64_t address : {uint64_t{0}, uint64_t{0x1234567}, UINT64_MAX}) {
    const Translation read = table_.translate(key, 7, address, 4096, {});
    ASSERT_EQ(read.result, AccessResult::ok);
    EXPECT_EQ(std::count(read.host, read.host + 4096, std::byte{0}), 4096);
    EXPECT_EQ(check(key, address, uint64_t{1} << 31, Access::local_write), AccessResult::ok);
    EXPECT_EQ(table_.translate(key, 7, address, 8, Access::local_write).host, nullptr);
  }
  EXPECT_EQ(check(key, 0, 4097), AccessResult::out_of_bounds) << "a read is one packet's";
}

TEST_F(RegionTableTest, ANullRegionIsForThisSideAndItsDomain) {
  const Key key = table_.add_null(7).value();
  EXPECT_EQ(check(key, 0, 8, {}, 8), AccessResult::wrong_domain);
  for (const Access remote : {Access::remote_read, Access::remote_write, Access::remote_atomic})
    EXPECT_EQ(check(key, 0, 8, remote), AccessResult::not_permitted);
  EXPECT_NE(table_.invalidate(key, 7), AccessResult::ok);
  const Key window = table_.add_window(7, WindowType::type1).value();
  EXPECT_FALSE(table_.bind({.key = window, .pd = 7, .region = key, .length = 8, .access = Access::remote_read}));
  EXPECT_FALSE(table_.bind({.key = key, .pd = 7, .region = key, .length = 8, .access = Access::remote_read}));
  EXPECT_TRUE(table_.remove(key));
  EXPECT_EQ(check(key, 0, 8), AccessResult::bad_key);
  table_.retire(key);
  EXPECT_EQ(table_.add_null(0).error().code, EINVAL);
}

TEST_F(RegionTableTest, SumsDoNotWrap) {
  const Key key = table_.add(spec(0x10000, 4096)).value();
  EXPECT_EQ(check(key, 0x10001, UINT64_MAX), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0x10001, UINT64_MAX - 0x10000), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, UINT64_MAX, 2), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, UINT64_MAX - 0xffff, 0x10000 + 0x10001), AccessResult::out_of_bounds);
}

TEST_F(RegionTableTest, ARegionMayEndWhereTheAddressSpaceEnds) {
  const Key key = table_.add(spec(UINT64_MAX - 4095, 4096)).value();
  EXPECT_EQ(check(key, UINT64_MAX, 1), AccessResult::ok);
  EXPECT_EQ(check(key, UINT64_MAX - 4095, 4096), AccessResult::ok);
  EXPECT_EQ(check(key, UINT64_MAX, 2), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(table_.add(spec(UINT64_MAX - 4095, 4097)).error().code, EINVAL);
}

TEST_F(RegionTableTest, ZeroBasedRegionsCoverTheirOffsets) {
  const Key key = table_.add(spec(0, 4096, kAll | Access::zero_based)).value();
  EXPECT_EQ(table_.translate(key, 7, 4095, 1, {}).host, buffer_.data() + 4095);
  EXPECT_EQ(check(key, 4096, 1), AccessResult::out_of_bounds);
}

TEST_F(RegionTableTest, ZeroLengthNeedsNothing) {
  // C9-88
  EXPECT_EQ(check(0, 0, 0, Access::remote_write), AccessResult::ok);
  EXPECT_EQ(check(0xdeadbeef, UINT64_MAX, 0, Access::remote_read, 0), AccessResult::ok);
  EXPECT_EQ(table_.translate(0, 7, 0, 0, {}).host, nullptr);
}

TEST_F(RegionTableTest, ARegionOfNoBytesHoldsNone) {
  const Key key = table_.add(spec(0x10000, 0)).value();
  EXPECT_EQ(check(key, 0x10000, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 0x10000, 0), AccessResult::ok);
}

TEST_F(RegionTableTest, EachPermissionIsChecked) {
  const Key key = table_.add(spec(0, 64, Access::remote_read)).value();
  EXPECT_EQ(check(key, 0, 8), AccessResult::ok) << "local read is always allowed";
  EXPECT_EQ(check(key, 0, 8, Access::remote_read), AccessResult::ok);
  EXPECT_EQ(check(key, 0, 8, Access::local_write), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 0, 8, Access::remote_write), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 0, 8, Access::remote_atomic), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 0, 8, Access::remote_read | Access::remote_write), AccessResult::not_permitted);
}

TEST_F(RegionTableTest, RemoteWritersNeedLocalWrite) {
  EXPECT_EQ(table_.add(spec(0, 64, Access::remote_write)).error().code, EINVAL);
  EXPECT_EQ(table_.add(spec(0, 64, Access::remote_atomic)).error().code, EINVAL);
  EXPECT_TRUE(table_.add(spec(0, 64, Access::remote_write | Access::local_write)).has_value());
}

TEST_F(RegionTableTest, PersistenceIsRefused) {
  const auto refused = table_.add(spec(0, 64, Access::flush_persistent));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EOPNOTSUPP);
  EXPECT_NE(refused.error().text.find("loss of power"), std::string::npos) << refused.error().text;
}

TEST_F(RegionTableTest, AKeyIsCheckedWithoutAnAddress) {
  const Key key = table_.add(spec(0x10000, 64, Access::flush_global)).value();
  EXPECT_EQ(table_.check_key(key, 7, Access::flush_global, 0), AccessResult::ok);
  EXPECT_EQ(table_.check_key(key, 8, Access::flush_global, 0), AccessResult::wrong_domain);
  EXPECT_EQ(table_.check_key(key, 7, Access::flush_persistent, 0), AccessResult::not_permitted);
  EXPECT_EQ(table_.check_key(key ^ 1, 7, Access::flush_global, 0), AccessResult::bad_key);
  EXPECT_EQ(table_.check_key(0, 7, {}, 0), AccessResult::bad_key);
  table_.remove(key);
  EXPECT_EQ(table_.check_key(key, 7, Access::flush_global, 0), AccessResult::bad_key);
}

TEST_F(RegionTableTest, DomainsAreSeparate) {
  const Key key = table_.add(spec(0, 64)).value();
  EXPECT_EQ(check(key, 0, 8, {}, 8), AccessResult::wrong_domain);
  EXPECT_EQ(check(key, 0, 8, {}, 0), AccessResult::wrong_domain);
  EXPECT_EQ(table_.add(spec(0, 64, kAll, 0)).error().code, EINVAL);
}

TEST_F(RegionTableTest, NeighbouringKeysDoNotHit) {
  const Key key = table_.add(spec(0, 64)).value();
  for (uint32_t bit = 0; bit < 32; ++bit) EXPECT_EQ(check(key ^ 1u << bit, 0, 8), AccessResult::bad_key) << bit;
  EXPECT_EQ(check(0, 0, 8), AccessResult::bad_key);
}

TEST_F(RegionTableTest, ARemovedKeyStopsAtOnce) {
  const Key key = table_.add(spec(0, 64)).value();
  EXPECT_TRUE(table_.remove(key));
  EXPECT_EQ(check(key, 0, 8), AccessResult::bad_key);
  EXPECT_FALSE(table_.remove(key));
  EXPECT_FALSE(table_.remove(0));
  EXPECT_EQ(table_.used(), 0u);
}

TEST_F(RegionTableTest, AnInvalidatedKeyStopsWhileItsRegionStays) {
  const AccessFlags access = kAll | Access::remote_invalidate;
  const Key key = table_.add(spec(0, 64, access)).value();
  EXPECT_EQ(table_.invalidate(key, 8), AccessResult::wrong_domain);
  EXPECT_EQ(check(key, 0, 8), AccessResult::ok);
  EXPECT_EQ(table_.invalidate(key, 7), AccessResult::ok);
  EXPECT_EQ(check(key, 0, 8), AccessResult::bad_key);
  EXPECT_EQ(table_.invalidate(key, 7), AccessResult::bad_key);
  EXPECT_EQ(table_.used(), 1u) << "it exists until its owner deregisters it";
  EXPECT_TRUE(table_.remove(key));
  EXPECT_FALSE(table_.remove(key));
  table_.retire(key);
  EXPECT_EQ(table_.used(), 0u);
}

TEST_F(RegionTableTest, OnlyRegionsRegisteredForItCanBeInvalidated) {
  const Key key = table_.add(spec(0, 64)).value();
  EXPECT_EQ(table_.invalidate(key, 7), AccessResult::not_permitted);
  EXPECT_EQ(table_.invalidate(0, 7), AccessResult::bad_key);
  EXPECT_EQ(check(key, 0, 8), AccessResult::ok);
}

TEST_F(RegionTableTest, FullUntilRetired) {
  std::vector<Key> keys;
  for (uint32_t i = 0; i < table_.capacity(); ++i) keys.push_back(table_.add(spec(0, 64)).value());
  EXPECT_EQ(table_.used(), 16u);
  EXPECT_EQ(table_.add(spec(0, 64)).error().code, ENOMEM);
  table_.retire(keys[3]);  // still registered: ignored
  EXPECT_FALSE(table_.add(spec(0, 64)).has_value());
  ASSERT_TRUE(table_.remove(keys[3]));
  EXPECT_FALSE(table_.add(spec(0, 64)).has_value()) << "an engine may still be reading the slot";
  table_.retire(keys[3]);
  table_.retire(keys[3]);  // once only
  EXPECT_TRUE(table_.add(spec(0, 64)).has_value());
  EXPECT_FALSE(table_.add(spec(0, 64)).has_value());
}

TEST_F(RegionTableTest, SlotsAreReusedOldestFirst) {
  std::vector<Key> keys;
  for (uint32_t i = 0; i < 16; ++i) keys.push_back(table_.add(spec(0, 64)).value());
  for (uint32_t i : {5u, 2u, 9u}) {
    table_.remove(keys[i]);
    table_.retire(keys[i]);
  }
  constexpr uint32_t kSlotShift = 28;  // 16 slots
  for (uint32_t i : {5u, 2u, 9u}) EXPECT_EQ(table_.add(spec(0, 64)).value() >> kSlotShift, keys[i] >> kSlotShift);
}

TEST(RegionTableKeys, AKeyDoesNotComeBackUntilTheGenerationSpaceIsUsed) {
  RegionTable table(1u << 20, 42);  // 12 generation bits: the whole space can be walked
  std::set<Key> seen;
  std::byte byte{};
  const RegionSpec spec{.pd = 1, .address = 0, .length = 1, .host = &byte, .access = {}};
  // Fill all slots but one, so that this one is used again and again.
  for (uint32_t i = 0; i + 1 < table.capacity(); ++i) ASSERT_TRUE(table.add(spec).has_value());
  Key last = 0;
  for (uint32_t i = 0; i < 4096; ++i) {
    const Key key = table.add(spec).value();
    ASSERT_NE(key, 0u);
    ASSERT_TRUE(seen.insert(key).second) << "key repeats after " << i;
    if (last != 0) {
      ASSERT_EQ(table.translate(last, 1, 0, 1, {}).result, AccessResult::bad_key);
    }
    table.remove(key);
    table.retire(key);
    last = key;
  }
  EXPECT_TRUE(seen.contains(table.add(spec).value())) << "there are 4096 generations";
}

TEST(RegionTableKeys, StaleKeysNeverHitOverManyRegistrations) {
  RegionTable table(64, 7);
  std::byte byte{};
  const RegionSpec spec{.pd = 1, .address = 0, .length = 1, .host = &byte, .access = {}};
  std::set<Key> stale;
  std::vector<Key> live;
  Random random(99);
  for (int round = 0; round < 20000; ++round) {
    if (live.size() < 60 && random.chance(0.55)) {
      live.push_back(table.add(spec).value());
      ASSERT_FALSE(stale.contains(live.back()));
    } else if (!live.empty()) {
      const std::size_t victim = random.below(live.size());
      table.remove(live[victim]);
      table.retire(live[victim]);
      stale.insert(live[victim]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  for (Key key : stale) ASSERT_EQ(table.translate(key, 1, 0, 1, {}).result, AccessResult::bad_key);
  for (Key key : live) ASSERT_EQ(table.translate(key, 1, 0, 1, {}).result, AccessResult::ok);
}

TEST(RegionTableKeys, FollowTheSeed) {
  std::byte byte{};
  const RegionSpec spec{.pd = 1, .address = 0, .length = 1, .host = &byte, .access = {}};
  RegionTable a(1024, 1), b(1024, 1), c(1024, 2);
  std::set<uint32_t> low_bits;
  bool differ = false;
  for (int i = 0; i < 256; ++i) {
    const Key key = a.add(spec).value();
    EXPECT_EQ(key, b.add(spec).value());
    differ |= key != c.add(spec).value();
    low_bits.insert(key & 0x3fffff);
  }
  EXPECT_TRUE(differ);
  EXPECT_GT(low_bits.size(), 250u) << "the first keys of different slots have different generations";
}

// A peer knows one key and tries those of the next slots, with all generations.
TEST(RegionTableKeys, AKeyDoesNotTellTheSlotOfTheNext) {
  constexpr uint32_t kGenerationBits = 16;
  RegionTable table(1u << (32 - kGenerationBits), 5);
  std::byte byte{};
  const RegionSpec spec{.pd = 1, .address = 0, .length = 1, .host = &byte, .access = {}};
  std::vector<uint32_t> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(table.add(spec).value() >> kGenerationBits);
  uint32_t found = 0;
  for (uint32_t slot = slots[0] + 1; slot <= slots[0] + 16; ++slot) {
    for (uint32_t low = 0; low < 1u << kGenerationBits; ++low) {
      const Key guess = (slot << kGenerationBits) | low;
      found += table.translate(guess, 1, 0, 1, {}).result == AccessResult::ok ? 1 : 0;
    }
  }
  EXPECT_EQ(found, 0u) << "a million guesses";
  std::ranges::sort(slots);
  EXPECT_GT(slots.back() - slots.front(), 1u << 15) << "they lie all over the table";
}

TEST(RegionTableKeys, CapacityIsAPowerOfTwoInRange) {
  EXPECT_EQ(RegionTable(0, 0).capacity(), 2u);
  EXPECT_EQ(RegionTable(3, 0).capacity(), 4u);
  EXPECT_EQ(RegionTable(1u << 20, 0).capacity(), 1u << 20);
}

/// Engines look up while the control thread replaces regions, with the quiescent points that retire() needs. Each
/// region's memory contains its key, so that a look-up which mixes two registrations is detected.
TEST(RegionTableThreads, LookUpsSeeWholeRegistrationsOnly) {
  constexpr uint32_t kSlots = 8;
  constexpr int kReaders = 2;
  RegionTable table(kSlots, 3);
  struct Place {
    std::atomic<uint32_t> owner{0};
  };
  std::array<Place, kSlots * 2> places;
  std::array<std::atomic<Key>, kSlots> published{};
  std::array<std::atomic<uint64_t>, kReaders> epoch{};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> torn{0};

  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      Random random(static_cast<uint64_t>(r));
      while (!stop.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 64; ++i) {
          const Key key = published[random.below(kSlots)].load(std::memory_order_relaxed);
          if (key == 0) continue;
          const Translation t = table.translate(key, key & 0xff, key, sizeof(Place), Access::remote_read);
          if (t.result == AccessResult::bad_key) continue;  // removed meanwhile
          const bool whole = t.result == AccessResult::ok &&
                             reinterpret_cast<Place*>(t.host)->owner.load(std::memory_order_relaxed) == key;
          (whole ? hits : torn).fetch_add(1, std::memory_order_relaxed);
        }
        epoch[static_cast<std::size_t>(r)].fetch_add(1, std::memory_order_acq_rel);  // the quiescent point
        std::this_thread::yield();
      }
    });
  }
  auto wait_quiescent = [&] {
    for (auto& e : epoch) {
      const uint64_t before = e.load(std::memory_order_acquire);
      while (e.load(std::memory_order_acquire) < before + 2) std::this_thread::yield();
    }
  };
  // The key is not known before add(), but a second table with the same seed gives the same keys.
  RegionTable twin(kSlots, 3);
  for (uint32_t round = 0; round < 2000; ++round) {
    const uint32_t at = round % kSlots;
    if (const Key old = published[at].exchange(0, std::memory_order_relaxed); old != 0) {
      ASSERT_TRUE(table.remove(old));
      twin.remove(old);
      wait_quiescent();
      table.retire(old);
      twin.retire(old);
    }
    const Key key = twin.add({.pd = 1, .address = 0, .length = 1, .host = nullptr, .access = {}}).value();
    Place& place = places[at + (round / kSlots % 2) * kSlots];
    place.owner.store(key, std::memory_order_relaxed);
    const PdId pd = (key & 0xff) == 0 ? 256 : key & 0xff;
    const auto added = table.add({.pd = pd,
                                  .address = key,
                                  .length = sizeof(Place),
                                  .host = reinterpret_cast<std::byte*>(&place),
                                  .access = Access::remote_read});
    ASSERT_EQ(added.value(), key);
    if (pd != 256) published[at].store(key, std::memory_order_relaxed);
    if (pd == 256) {
      table.remove(key);
      table.retire(key);
      twin.remove(key);
      twin.retire(key);
    }
  }
  while (hits.load(std::memory_order_relaxed) < 1000) std::this_thread::yield();
  stop = true;
  for (auto& t : readers) t.join();
  EXPECT_EQ(torn.load(), 0u);
}

/// Counts the look-ups that a table does not answer itself.
struct Asked : KeyLookups {
  explicit Asked(RegionTable& real) : table(real) {}
  Translation translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                        uint32_t qpn) override {
    ++times;
    return table.translate(key, pd, address, length, needed, qpn);
  }
  AccessResult check_key(Key key, PdId pd, AccessFlags needed, uint32_t qpn) override {
    return table.check_key(key, pd, needed, qpn);
  }
  AccessResult invalidate(Key key, PdId pd, uint32_t qpn) override { return table.invalidate(key, pd, qpn); }
  bool bind(const BindSpec& what) override { return table.bind(what); }
  RegionTable& table;
  int times = 0;
};

TEST_F(RegionTableTest, ATableAnswersForTheKeysThatItHasLearnt) {
  Asked asked(table_);
  RegionTable learner(asked, 4);
  const Key key = table_.add(spec(0x10000, 4096, Access::local_write)).value();
  const auto look_up = [&](PdId pd, uint64_t address, AccessFlags needed) {
    return learner.translate(key, pd, address, 8, needed);
  };
  EXPECT_EQ(look_up(7, 0x10010, {}).host, buffer_.data() + 0x10);
  EXPECT_EQ(asked.times, 1);
  learner.learn(key, table_.region(key).value());
  EXPECT_EQ(look_up(7, 0x10010, {}).host, buffer_.data() + 0x10);
  EXPECT_EQ(look_up(8, 0x10010, {}).result, AccessResult::wrong_domain);
  EXPECT_EQ(look_up(7, 0x10ffc, {}).result, AccessResult::out_of_bounds);
  EXPECT_EQ(look_up(7, 0x10010, Access::remote_read).result, AccessResult::not_permitted);
  EXPECT_EQ(asked.times, 1);
  learner.unlearn(key);
  EXPECT_EQ(look_up(7, 0x10010, {}).result, AccessResult::ok);
  EXPECT_EQ(asked.times, 2);
}

// A table that has learnt a key must hear when it opens nothing any more.
TEST_F(RegionTableTest, EachEndOfARegionIsAChange) {
  const AccessFlags access = kAll | Access::remote_invalidate;
  uint64_t seen = table_.changes();
  const auto changed = [&] { return std::exchange(seen, table_.changes()) != table_.changes(); };
  const Key key = table_.add(spec(0, 64, access)).value();
  EXPECT_EQ(table_.region(key)->length, 64u);
  EXPECT_FALSE(changed());
  ASSERT_TRUE(table_.suspend(key));
  EXPECT_TRUE(changed());
  EXPECT_FALSE(table_.region(key).has_value());
  ASSERT_TRUE(table_.resume(key, spec(0, 32, access)));
  EXPECT_EQ(table_.region(key)->length, 32u);
  ASSERT_EQ(table_.invalidate(key, 7), AccessResult::ok);
  EXPECT_TRUE(changed());
  ASSERT_TRUE(table_.remove(key));
  EXPECT_TRUE(changed());
  EXPECT_FALSE(table_.region(table_.add_null(7).value()).has_value());
  EXPECT_FALSE(table_.region(0).has_value());
}

TEST_F(RegionTableTest, AnotherTableGoesOnWithItsKeys) {
  RegionTable small(2, 1);
  std::set<Key> given;
  Key window = 0, kept = small.add(spec(0, 1)).value();
  for (int i = 0; i < 1000; ++i) {
    window = small.add_window(7, WindowType::type2).value();
    EXPECT_TRUE(given.insert(window).second);
    small.remove(window);
    small.retire(window);
  }
  RegionTable heir(2, 99);
  ASSERT_TRUE(heir.go_on_with(small.numbers()));
  const KeyState as{.key = kept};
  EXPECT_EQ(heir.add(spec(0, 1), &as), kept);
  for (int i = 0; i < 1000; ++i) {
    const Key key = heir.add(spec(0, 1)).value();
    EXPECT_EQ(key, small.add(spec(0, 1)).value());
    EXPECT_TRUE(given.insert(key).second);
    EXPECT_NE(key & ~0xffu, i == 0 ? window & ~0xffu : 0u) << "a window may have used it with other low bits";
    for (RegionTable* table : {&heir, &small}) {
      table->remove(key);
      table->retire(key);
    }
  }
}

TEST_F(RegionTableTest, SlotsOfObjectsThatDoNotComeAreFree) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(table_.add(spec(0, 1)));
  RegionTable heir(16, 99);
  ASSERT_TRUE(heir.go_on_with(table_.numbers()));
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(heir.add(spec(0, 1))) << i;
}

TEST_F(RegionTableTest, KeysThatAreNoneOfATableAreRefused) {
  const KeyNumbers good = table_.numbers();
  RegionTable heir(16, 99);
  KeyNumbers bad = good;
  bad.uses.pop_back();
  EXPECT_FALSE(heir.go_on_with(bad));
  bad = good;
  bad.free[3] = 16;
  EXPECT_FALSE(heir.go_on_with(bad));
  bad.free[3] = bad.free[4];
  EXPECT_FALSE(heir.go_on_with(bad));
  EXPECT_TRUE(heir.go_on_with(good));
}

}  // namespace
}  // namespace uroce::memory
