#include "base/guess_table.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

Gid peer(uint32_t n) { return Gid::from_ipv4(0x0a000000 + n); }

uint64_t count(const PeerGuesses& row, Guess kind) { return row.counts[static_cast<std::size_t>(kind)]; }

TEST(GuessTable, CountsByPeerAndKind) {
  GuessTable table;
  EXPECT_TRUE(table.report(Nanos(0)).empty());
  table.add(peer(2), Guess::rkey, Nanos(10));
  table.add(peer(1), Guess::qpn, Nanos(20));
  table.add(peer(2), Guess::rkey, Nanos(30));
  table.add(peer(2), Guess::cm_id, Nanos(40));
  const auto rows = table.report(Nanos(100));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].peer, peer(1)) << "in the order of addresses";
  EXPECT_EQ(count(rows[0], Guess::qpn), 1u);
  EXPECT_EQ(rows[0].total(), 1u);
  EXPECT_EQ(rows[0].ago, Nanos(80));
  EXPECT_EQ(count(rows[1], Guess::rkey), 2u);
  EXPECT_EQ(count(rows[1], Guess::cm_id), 1u);
  EXPECT_EQ(rows[1].total(), 3u);
  EXPECT_EQ(rows[1].ago, Nanos(60));
}

TEST(GuessTable, ThePeerThatHasNotGuessedForLongestLeaves) {
  GuessTable table;
  for (uint32_t n = 0; n < GuessTable::kPeers; ++n) table.add(peer(n), Guess::psn, Nanos(n));
  table.add(peer(0), Guess::psn, Nanos(100));
  table.add(peer(1000), Guess::psn, Nanos(101));
  const auto rows = table.report(Nanos(101));
  ASSERT_EQ(rows.size(), GuessTable::kPeers);
  EXPECT_EQ(rows.front().peer, peer(0));
  EXPECT_EQ(rows.front().total(), 2u);
  EXPECT_EQ(rows[1].peer, peer(2)) << "1 has left";
  EXPECT_EQ(rows.back().peer, peer(1000));
  EXPECT_EQ(rows.back().total(), 1u);
}

TEST(GuessTable, WhatSeveralCountedIsAddedUp) {
  GuessTable one, other;
  one.add(peer(1), Guess::qpn, Nanos(10));
  one.add(peer(3), Guess::qpn, Nanos(10));
  other.add(peer(2), Guess::qpn, Nanos(20));
  other.add(peer(3), Guess::qkey, Nanos(20));
  auto all = one.report(Nanos(50));
  merge_guesses(all, other.report(Nanos(50)));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].peer, peer(2));
  EXPECT_EQ(all[2].total(), 2u);
  EXPECT_EQ(count(all[2], Guess::qkey), 1u);
  EXPECT_EQ(all[2].ago, Nanos(30)) << "the latest";
}

}  // namespace
}  // namespace uroce
