#include "service/history.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace uroce::service {
namespace {

using Kind = History::Kind;

const Peer kOperator{.pid = 1, .uid = 0, .privileged = true};
const Peer kAnn{.pid = 2, .uid = 1001, .command = "ann"};
const Peer kBen{.pid = 3, .uid = 1002, .command = "ben"};

class HistoryTest : public testing::Test {
 protected:
  void note(uint32_t client, const Peer& peer, const std::string& text, uint32_t qpn = 0, Kind kind = Kind::trouble) {
    history_.note(client, peer, {.kind = kind, .device = "uroce0", .qpn = qpn, .text = text}, now_);
  }
  std::vector<std::string> texts(const message::ListHistory& request = {}, const Peer& peer = kOperator) {
    std::vector<std::string> out;
    for (const auto& row : history_.rows(request, Sight(peer), now_).rows) out.push_back(row.text);
    return out;
  }
  using Texts = std::vector<std::string>;

  History history_;
  History::Time now_{std::chrono::hours(1)};
};

TEST_F(HistoryTest, IsInOrderWithTheAgeOfEachEvent) {
  note(1, kAnn, "first", 0x11, Kind::step);
  now_ += std::chrono::milliseconds(1500);
  note(1, kAnn, "second", 0x11);
  const auto rows = history_.rows({}, Sight(kOperator), now_ + std::chrono::seconds(1)).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text, "first");
  EXPECT_FALSE(rows[0].trouble);
  EXPECT_EQ(rows[0].ago_ms, 2500u);
  EXPECT_EQ(rows[1].ago_ms, 1000u);
  EXPECT_TRUE(rows[1].trouble);
  EXPECT_EQ(rows[1].command, "ann");
  EXPECT_EQ(rows[1].device, "uroce0");
}

TEST_F(HistoryTest, AQueuePairsEventsComeWithThoseOfItsProgram) {
  note(1, kAnn, "of 11", 0x11);
  note(1, kAnn, "of 12", 0x12);
  note(1, kAnn, "of the program");
  note(2, kBen, "another's");
  EXPECT_EQ(texts({.qpn = 0x11}), (Texts{"of 11", "of the program"}));
  EXPECT_EQ(texts({.pid = 3}), Texts{"another's"});
  EXPECT_EQ(texts({.command = "ann"}).size(), 3u);
  EXPECT_EQ(texts({.qpn = 0x13}), Texts{});
}

TEST_F(HistoryTest, UsersSeeTheirOwn) {
  note(1, kAnn, "ann's");
  note(2, kBen, "ben's");
  EXPECT_EQ(texts({}, kAnn), Texts{"ann's"});
  EXPECT_EQ(texts({}, kOperator), (Texts{"ann's", "ben's"}));
}

TEST_F(HistoryTest, ARepetitionIsCounted) {
  for (int i = 0; i < 1000; ++i) note(1, kAnn, "refused");
  note(1, kAnn, "refused", 0x11);
  const auto rows = history_.rows({}, Sight(kOperator), now_).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].times, 1000u);
  EXPECT_EQ(rows[1].times, 1u);
}

TEST_F(HistoryTest, StepsDoNotPushOutTroubles) {
  for (std::size_t i = 0; i < History::kTroubles + 3; ++i) note(1, kAnn, fmt::format("trouble {}", i));
  for (std::size_t i = 0; i < 1000; ++i) note(1, kAnn, fmt::format("step {}", i), 0x11, Kind::step);
  message::HistoryRows rows = history_.rows({}, Sight(kOperator), now_);
  EXPECT_EQ(rows.rows.front().text, "trouble 3");
  EXPECT_TRUE(rows.more);
  rows = history_.rows({.after = rows.rows.back().number}, Sight(kOperator), now_);
  EXPECT_EQ(rows.rows.back().text, "step 999");
  EXPECT_FALSE(rows.more);
}

TEST_F(HistoryTest, NobodysProgramsPushOutThoseOfOthers) {
  note(1, kAnn, "ann's");
  history_.end(1);
  for (uint32_t client = 2; client < 2 + 2 * History::kPrograms; ++client) {
    note(client, kBen, fmt::format("ben's {}", client));
    history_.end(client);
  }
  EXPECT_EQ(texts({.command = "ann"}), Texts{"ann's"});
  EXPECT_EQ(texts({.after = 2 * History::kPrograms}).back(), fmt::format("ben's {}", 1 + 2 * History::kPrograms));
  EXPECT_TRUE(history_.rows({.pid = 2}, Sight(kOperator), now_).rows[0].gone);
}

TEST_F(HistoryTest, ALiveProgramStaysLongerThanOneThatHasGone) {
  for (uint32_t client = 1; client <= History::kPrograms; ++client) note(client, kBen, fmt::format("{}", client));
  history_.end(7);
  note(1000, kAnn, "new");
  EXPECT_EQ(history_.rows({.command = "ben"}, Sight(kOperator), now_).rows.front().text, "1");
  const auto of_7 = texts({.after = 6});
  EXPECT_EQ(of_7.front(), "8");
}

TEST_F(HistoryTest, TellsWhatEndedProgramsLeft) {
  for (uint32_t client = 1; client <= 100; ++client) {
    note(client, client % 2 != 0 ? kAnn : kBen, "came");
    if (client > 1) history_.end(client, {{"queue pair", client}, {"memory region", 1}});
  }
  history_.end(1);
  const auto first = history_.left(0, Sight(kOperator));
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.rows.front().client, 2u) << "the program before left nothing";
  EXPECT_EQ(first.rows.front().command, "ben");
  EXPECT_EQ(first.rows.front().objects, (History::Objects{{"queue pair", 2}, {"memory region", 1}}));
  const auto second = history_.left(first.rows.back().client, Sight(kOperator));
  EXPECT_FALSE(second.more);
  EXPECT_EQ(first.rows.size() + second.rows.size(), 99u);
  for (const auto& row : history_.left(0, Sight(kAnn)).rows) EXPECT_EQ(row.uid, kAnn.uid);
}

TEST_F(HistoryTest, AReplyFitsAPacketAndCutsLongTexts) {
  for (std::size_t i = 0; i < 100; ++i) {
    note(1, kAnn, fmt::format("{:05}", i) + std::string(100'000, 'x'), 0, Kind::step);
    note(2, kAnn, fmt::format("{:05}", i) + std::string(100'000, 'x'), 0, Kind::step);
  }
  const auto rows = history_.rows({}, Sight(kOperator), now_);
  EXPECT_EQ(rows.rows[0].text.size(), History::kText);
  std::vector<std::byte> bytes;
  message::encode(bytes, rows);
  EXPECT_LT(bytes.size(), message::kMaxPacket);
}

}  // namespace
}  // namespace uroce::service
