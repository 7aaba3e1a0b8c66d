// Memory windows: every rule of binding, and changes during look-ups by other threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "memory/region_table.h"

namespace uroce::memory {
namespace {

constexpr PdId kPd = 7;
constexpr uint32_t kQpn = 0x11;
constexpr uint64_t kBase = 0x10000;
constexpr AccessFlags kWrite = Access::remote_write;
constexpr AccessFlags kRead = Access::remote_read;

class WindowTest : public testing::Test {
 protected:
  Key add_region(AccessFlags access = AccessFlags(Access::local_write) | Access::mw_bind, PdId pd = kPd) {
    return table_.add({.pd = pd, .address = kBase, .length = 4096, .host = buffer_.data(), .access = access}).value();
  }
  Key add(WindowType type, PdId pd = kPd) { return table_.add_window(pd, type).value(); }
  BindSpec spec(Key window, uint64_t offset = 1024, uint64_t length = 1024) const {
    return {.key = window,
            .pd = kPd,
            .qpn = kQpn,
            .region = region_,
            .address = kBase + offset,
            .length = length,
            .access = kWrite};
  }
  bool bind_with(Key window, AccessFlags access) {
    BindSpec to = spec(window);
    to.access = access;
    return table_.bind(to);
  }
  Translation at(Key key, uint64_t address, uint64_t length, AccessFlags needed = kWrite, uint32_t qpn = kQpn) {
    return table_.translate(key, kPd, address, length, needed, qpn);
  }
  AccessResult check(Key key, uint64_t offset, uint64_t length, AccessFlags needed = kWrite, uint32_t qpn = kQpn) {
    return at(key, kBase + offset, length, needed, qpn).result;
  }

  RegionTable table_{16, 1};
  std::array<std::byte, 4096> buffer_{};
  Key region_ = add_region();
};

class BothTypes : public WindowTest, public testing::WithParamInterface<WindowType> {};
INSTANTIATE_TEST_SUITE_P(Types, BothTypes, testing::Values(WindowType::type1, WindowType::type2));

TEST_P(BothTypes, GivesAccessToItsRangeOnly) {
  const Key key = add(GetParam());
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  ASSERT_TRUE(table_.bind(spec(key)));
  // The region itself gives peers no access.
  EXPECT_EQ(check(region_, 1024, 1), AccessResult::not_permitted);
  EXPECT_EQ(at(key, kBase + 1024, 1024).host, buffer_.data() + 1024);
  EXPECT_EQ(at(key, kBase + 2047, 1).host, buffer_.data() + 2047);
  EXPECT_EQ(check(key, 1023, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 2048, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 1024, 1025), AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 1024, UINT64_MAX), AccessResult::out_of_bounds);
  EXPECT_EQ(at(key, UINT64_MAX, 2).result, AccessResult::out_of_bounds);
  EXPECT_EQ(at(key, 0, 1).result, AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 1024, 1, kRead), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 1024, 1, Access::remote_atomic), AccessResult::not_permitted);
  EXPECT_EQ(table_.translate(key, kPd + 1, kBase + 1024, 1, kWrite, kQpn).result, AccessResult::wrong_domain);
}

TEST_P(BothTypes, ItsKeyIsNotAnLkey) {
  const Key key = add(GetParam());
  ASSERT_TRUE(table_.bind(spec(key)));
  EXPECT_EQ(check(key, 1024, 1, {}), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 1024, 1, Access::local_write), AccessResult::not_permitted);
}

TEST_P(BothTypes, TheConsumerChoosesTheLowEightBits) {
  const Key key = add(GetParam());
  const Key chosen = (key & ~0xffu) | ((key + 77) & 0xff);
  ASSERT_TRUE(table_.bind(spec(chosen)));
  EXPECT_EQ(check(chosen, 1024, 1), AccessResult::ok);
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
}

TEST_P(BothTypes, NoOtherBitMayDiffer) {
  const Key key = add(GetParam());
  for (uint32_t bit = 8; bit < 32; ++bit) EXPECT_FALSE(table_.bind(spec(key ^ 1u << bit))) << bit;
  EXPECT_FALSE(table_.bind(spec(0)));
  EXPECT_FALSE(table_.bind(spec(region_)));
}

TEST_P(BothTypes, StaysWithinTheRegion) {
  const Key key = add(GetParam());
  EXPECT_FALSE(table_.bind(spec(key, 4095, 2)));
  EXPECT_FALSE(table_.bind(spec(key, 4097, 1)));
  EXPECT_FALSE(table_.bind(spec(key, static_cast<uint64_t>(-1), 1)));
  EXPECT_FALSE(table_.bind(spec(key, 1, UINT64_MAX)));
  EXPECT_EQ(table_.windows(region_), 0u);
  EXPECT_TRUE(table_.bind(spec(key, 0, 4096)));
}

TEST_P(BothTypes, NeedsOneDomainThroughout) {
  const Key foreign_window = add(GetParam(), kPd + 1);
  EXPECT_FALSE(table_.bind(spec(foreign_window)));
  const Key key = add(GetParam());
  BindSpec to = spec(key);
  to.region = add_region(AccessFlags(Access::local_write) | Access::mw_bind, kPd + 1);
  EXPECT_FALSE(table_.bind(to));
  to = spec(key);
  to.pd = kPd + 1;  // the queue pair's
  EXPECT_FALSE(table_.bind(to));
}

TEST_P(BothTypes, TheRegionMustAllowIt) {
  const Key key = add(GetParam());
  BindSpec to = spec(key);
  to.region = add_region(Access::local_write);
  EXPECT_FALSE(table_.bind(to));
  to.region = add_region(Access::mw_bind);
  EXPECT_FALSE(table_.bind(to));
  to.access = Access::remote_atomic;
  EXPECT_FALSE(table_.bind(to));
  to.access = kRead;
  EXPECT_TRUE(table_.bind(to));
}

TEST_P(BothTypes, LetsAPeerFlushWhatItsRegionDoes) {
  const Key key = add(GetParam());
  EXPECT_FALSE(bind_with(key, Access::flush_global));
  BindSpec to = spec(key);
  to.region = add_region(AccessFlags(Access::local_write) | Access::mw_bind | Access::flush_global);
  to.access = kWrite | Access::flush_persistent;
  EXPECT_FALSE(table_.bind(to));
  to.access = kWrite | Access::flush_global;
  ASSERT_TRUE(table_.bind(to));
  EXPECT_EQ(check(key, 1024, 1024, Access::flush_global), AccessResult::ok);
  EXPECT_EQ(check(key, 1023, 1, Access::flush_global), AccessResult::out_of_bounds);
  EXPECT_EQ(table_.check_key(key, kPd, Access::flush_global, kQpn), AccessResult::ok);
  EXPECT_EQ(table_.check_key(key, kPd, kRead, kQpn), AccessResult::not_permitted);
  table_.remove(to.region);
  EXPECT_EQ(table_.check_key(key, kPd, Access::flush_global, kQpn), AccessResult::bad_key);
}

TEST_P(BothTypes, GrantsRemoteAccessesOnly) {
  const Key key = add(GetParam());
  for (const Access access : {Access::local_write, Access::mw_bind, Access::remote_invalidate}) {
    EXPECT_FALSE(bind_with(key, kWrite | access));
  }
}

TEST_P(BothTypes, CannotBeBoundToAnotherWindow) {
  const Key other = add(GetParam());
  ASSERT_TRUE(table_.bind(spec(other, 0, 4096)));
  BindSpec to = spec(add(GetParam()));
  to.region = other;
  EXPECT_FALSE(table_.bind(to));
  to.region = 0;
  EXPECT_FALSE(table_.bind(to));
}

TEST_P(BothTypes, EndsWithItsRegionAndDoesNotComeBack) {
  const Key key = add(GetParam());
  ASSERT_TRUE(table_.bind(spec(key)));
  EXPECT_TRUE(table_.remove(region_));
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  table_.retire(region_);
  for (int i = 0; i < 64; ++i) {  // its slot among others
    const Key next = add_region();
    EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
    EXPECT_EQ(table_.windows(next), 0u);
    table_.remove(next);
    table_.retire(next);
  }
}

TEST_P(BothTypes, GrantsNoMoreThanItsRegionDoesNow) {
  const Key key = add(GetParam());
  ASSERT_TRUE(table_.bind(spec(key)));
  RegionSpec now{.pd = kPd, .address = kBase, .length = 4096, .host = buffer_.data(), .access = Access::mw_bind};
  const auto change = [&] {
    EXPECT_TRUE(table_.suspend(region_));
    EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
    EXPECT_TRUE(table_.resume(region_, now));
  };
  change();
  EXPECT_EQ(check(key, 1024, 1), AccessResult::not_permitted);
  now.access = Access::local_write;
  change();
  EXPECT_EQ(check(key, 1024, 1), AccessResult::not_permitted);
  now.access |= Access::mw_bind;
  now.length = 1025;
  change();
  EXPECT_EQ(check(key, 1024, 1), AccessResult::ok);
  EXPECT_EQ(check(key, 1024, 2), AccessResult::out_of_bounds);
  now.pd = kPd + 1;
  change();
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  EXPECT_TRUE(table_.remove(key));
  EXPECT_EQ(table_.windows(region_), 0u);
}

TEST_P(BothTypes, EndsWhenItIsRemoved) {
  const Key key = add(GetParam());
  ASSERT_TRUE(table_.bind(spec(key)));
  EXPECT_EQ(table_.windows(region_), 1u);
  EXPECT_TRUE(table_.remove(key));
  EXPECT_FALSE(table_.remove(key));
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  EXPECT_EQ(table_.windows(region_), 0u);
  EXPECT_FALSE(table_.bind(spec(key)));  // before an engine's quiescent point too
  table_.retire(key);
  EXPECT_FALSE(table_.bind(spec(key)));
  EXPECT_EQ(table_.used(), 1u);
}

TEST_P(BothTypes, ItsKeysDoNotReachTheNextObjectInItsSlot) {
  for (int i = 0; i < 200; ++i) {
    const Key key = add(GetParam());
    table_.remove(key);
    table_.retire(key);
    std::vector<Key> next;
    for (int j = 0; j < 15; ++j) next.push_back(i % 2 == 0 ? add(GetParam()) : add_region());
    for (const Key other : next) {
      EXPECT_NE(other & ~0xffu, key & ~0xffu);
      table_.remove(other);
      table_.retire(other);
    }
  }
}

TEST_F(WindowTest, Type1CanBeBoundAgain) {
  const Key first = add(WindowType::type1);
  ASSERT_TRUE(table_.bind(spec(first, 0, 64)));
  const Key second = (first & ~0xffu) | ((first + 1) & 0xff);
  ASSERT_TRUE(table_.bind(spec(second, 128, 64)));
  EXPECT_EQ(check(first, 0, 1), AccessResult::bad_key);
  EXPECT_EQ(check(second, 0, 1), AccessResult::out_of_bounds);
  EXPECT_EQ(check(second, 128, 1), AccessResult::ok);
  EXPECT_EQ(table_.windows(region_), 1u);
}

TEST_F(WindowTest, Type1IsUnboundByABindOfLengthZero) {
  const Key key = add(WindowType::type1);
  ASSERT_TRUE(table_.bind(spec(key)));
  ASSERT_TRUE(table_.bind({.key = key, .pd = kPd, .qpn = kQpn}));
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  EXPECT_EQ(table_.windows(region_), 0u);
  EXPECT_TRUE(table_.bind(spec(key)));
}

TEST_F(WindowTest, Type1ServesEveryQueuePairOfItsDomainAndIsNotInvalidated) {
  const Key key = add(WindowType::type1);
  ASSERT_TRUE(table_.bind(spec(key)));
  EXPECT_EQ(check(key, 1024, 1, kWrite, kQpn + 1), AccessResult::ok);
  EXPECT_EQ(table_.invalidate(key, kPd, kQpn), AccessResult::not_permitted);
  EXPECT_EQ(check(key, 1024, 1), AccessResult::ok);
}

TEST_F(WindowTest, Type1UsesTheRegionsAddresses) {
  EXPECT_FALSE(bind_with(add(WindowType::type1), kWrite | Access::zero_based));
}

TEST_F(WindowTest, Type2BelongsToTheQueuePairThatBoundIt) {
  const Key key = add(WindowType::type2);
  ASSERT_TRUE(table_.bind(spec(key)));
  EXPECT_EQ(check(key, 1024, 1, kWrite, kQpn + 1), AccessResult::not_permitted);
  EXPECT_EQ(table_.invalidate(key, kPd, kQpn + 1), AccessResult::not_permitted);
  EXPECT_EQ(table_.invalidate(key, kPd + 1, kQpn), AccessResult::wrong_domain);
  EXPECT_EQ(table_.invalidate(key ^ 1, kPd, kQpn), AccessResult::bad_key);
  EXPECT_EQ(check(key, 1024, 1), AccessResult::ok);
}

TEST_F(WindowTest, Type2IsInvalidatedBeforeItIsBoundAgain) {
  const Key key = add(WindowType::type2);
  ASSERT_TRUE(table_.bind(spec(key)));
  const Key next = (key & ~0xffu) | ((key + 1) & 0xff);
  EXPECT_FALSE(table_.bind(spec(next, 0, 64)));
  EXPECT_FALSE(table_.bind({.key = key, .pd = kPd, .qpn = kQpn}));
  EXPECT_EQ(check(key, 1024, 1), AccessResult::ok);
  EXPECT_EQ(table_.invalidate(key, kPd, kQpn), AccessResult::ok);
  EXPECT_EQ(table_.invalidate(key, kPd, kQpn), AccessResult::bad_key);
  EXPECT_EQ(table_.windows(region_), 0u);
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  EXPECT_TRUE(table_.bind(spec(next, 0, 64)));
  EXPECT_EQ(check(key, 1024, 1), AccessResult::bad_key);
  EXPECT_EQ(check(next, 0, 64), AccessResult::ok);
}

TEST_F(WindowTest, Type2CanBeZeroBased) {
  const Key key = add(WindowType::type2);
  ASSERT_TRUE(bind_with(key, kWrite | Access::zero_based));
  EXPECT_EQ(at(key, 0, 1024).host, buffer_.data() + 1024);
  EXPECT_EQ(at(key, 1023, 1).host, buffer_.data() + 2047);
  EXPECT_EQ(at(key, 1024, 1).result, AccessResult::out_of_bounds);
  EXPECT_EQ(check(key, 1024, 1), AccessResult::out_of_bounds);
}

TEST_F(WindowTest, TakesAPlaceInTheTableOfRegions) {
  std::vector<Key> keys;
  while (table_.used() < table_.capacity()) keys.push_back(add(WindowType::type1));
  EXPECT_EQ(table_.add_window(kPd, WindowType::type2).error().code, ENOMEM);
  EXPECT_EQ(table_.add_window(0, WindowType::type2).error().code, EINVAL);
  for (const Key key : keys) {
    table_.remove(key);
    table_.retire(key);
  }
  EXPECT_EQ(table_.used(), 1u);
}

// One thread binds a window to one of two ranges, each with its own key; others look both keys up. At every
// moment a key gives access to its own range only.
TEST_F(WindowTest, AnOldKeyNeverReachesANewRange) {
  constexpr uint64_t kOffset[2] = {0, 2048};
  constexpr uint64_t kLength[2] = {512, 2048};
  const Key window = add(WindowType::type1);
  const Key key[2] = {window & ~0xffu, (window & ~0xffu) | 1};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> hits{0}, wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      for (int i = reader; !stop.load(std::memory_order_relaxed); ++i) {
        const int which = i % 2;
        // The last byte of each range lies outside the other one.
        const uint64_t offset = kOffset[which] + kLength[which] - 1;
        const Translation t = table_.translate(key[which], kPd, kBase + offset, 1, kWrite, kQpn);
        if (t.result == AccessResult::ok) {
          hits.fetch_add(1, std::memory_order_relaxed);
          if (t.host != buffer_.data() + offset) wrong.fetch_add(1, std::memory_order_relaxed);
        } else if (t.result != AccessResult::bad_key) {
          wrong.fetch_add(1, std::memory_order_relaxed);
        }
        const Translation beyond = table_.translate(key[which], kPd, kBase + kOffset[1 - which], 1, kWrite, kQpn);
        if (beyond.result == AccessResult::ok) wrong.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  uint64_t bound = 0;
  for (int i = 0; i < 200'000 || hits.load(std::memory_order_relaxed) == 0; ++i) {
    bound += table_.bind(spec(key[i % 2], kOffset[i % 2], kLength[i % 2])) ? 1 : 0;
    if (i % 4096 == 0) std::this_thread::yield();
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_GE(bound, 200'000u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(table_.windows(region_), 1u);
}

// Several engines bind and invalidate one window, while the control thread frees it.
TEST_F(WindowTest, ChangesByManyThreadsKeepItConsistent) {
  for (int round = 0; round < 50; ++round) {
    const Key key = add(WindowType::type2);
    std::atomic<bool> stop{false};
    std::vector<std::thread> engines;
    for (uint32_t qpn : {1u, 2u}) {
      engines.emplace_back([&, qpn] {
        BindSpec to = spec(key);
        to.qpn = qpn;
        while (!stop.load(std::memory_order_relaxed)) {
          // Only the queue pair that bound it can invalidate it.
          if (table_.bind(to)) (void)table_.invalidate(key, kPd, qpn);
        }
      });
    }
    std::this_thread::yield();
    EXPECT_TRUE(table_.remove(key));
    EXPECT_EQ(check(key, 1024, 1, kWrite, 1), AccessResult::bad_key);
    EXPECT_EQ(table_.windows(region_), 0u);
    stop = true;
    for (auto& engine : engines) engine.join();
    EXPECT_EQ(table_.windows(region_), 0u);
    table_.retire(key);
  }
}

}  // namespace
}  // namespace uroce::memory
