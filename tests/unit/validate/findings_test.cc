#include "validate/findings.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::validate {
namespace {

TEST(MisuseTable, RowsStandInTheOrderOfTheEnumeratorsAndWordsAreUnique) {
  std::set<std::string> words;
  for (std::size_t i = 0; i < all_misuses().size(); ++i) {
    const MisuseRow& row = all_misuses()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.misuse), i);
    EXPECT_EQ(misuse_of(row.word), row.misuse);
    EXPECT_TRUE(words.insert(row.word).second) << row.word;
  }
  EXPECT_EQ(misuse_of("leak"), std::nullopt);
  EXPECT_NE(table_of_misuses().find("|`buffer-repeated` (note)|"), std::string::npos);
}

TEST(ValidateOptions, AreWordsBetweenCommas) {
  EXPECT_FALSE(parse_options("").on);
  EXPECT_FALSE(parse_options("0").on);
  EXPECT_TRUE(parse_options("1").on);
  const Options options = parse_options("notes,-cq-overrun,file:/tmp/a,b");
  EXPECT_TRUE(options.on);
  EXPECT_TRUE(options.notes);
  EXPECT_EQ(options.allowed, std::set{Misuse::cq_overrun});
  EXPECT_EQ(options.file, "/tmp/a,b");
  EXPECT_EQ(options.unknown, "");
  EXPECT_EQ(parse_options("1,-nothing").unknown, "-nothing");
  EXPECT_EQ(parse_options("yes").unknown, "yes");
}

TEST(ValidateFindings, AreToldOnceForEachPlace) {
  Findings findings{parse_options("1")};
  EXPECT_EQ(findings.summary(7), "7 work requests validated, no misuse");
  const auto line = findings.add({Misuse::list_loop, "ibv_post_send() on queue pair 0x11"}, "prog+0x10");
  EXPECT_EQ(line,
            "misuse list-loop: A list of work requests leads back into itself: ibv_post_send() on queue pair 0x11; end "
            "it with next = NULL (called from prog+0x10)");
  EXPECT_FALSE(findings.add({Misuse::list_loop, "again"}, "prog+0x10"));
  EXPECT_TRUE(findings.add({Misuse::list_loop, "elsewhere"}, "prog+0x20"));
  EXPECT_TRUE(findings.add({Misuse::wr_order, "another"}, "prog+0x10"));
  EXPECT_EQ(findings.summary(7), "7 work requests validated, misuses found: list-loop 3, wr-order 1");
  findings.restart();
  EXPECT_FALSE(findings.any());
}

TEST(ValidateFindings, NotesAndAllowedMisusesAreNotTold) {
  Findings findings{parse_options("1,-list-loop")};
  EXPECT_FALSE(findings.add({Misuse::list_loop, ""}, "prog+0x10"));
  EXPECT_FALSE(findings.add({Misuse::buffer_repeated, ""}, "prog+0x10"));
  EXPECT_FALSE(findings.any());
  Findings with_notes{parse_options("notes")};
  EXPECT_TRUE(with_notes.add({Misuse::buffer_repeated, ""}, "prog+0x10")->starts_with("note buffer-repeated: "));
}

TEST(ValidateFindings, TheirNumberIsBounded) {
  Findings findings{parse_options("1")};
  int told = 0;
  for (int i = 0; i < 1000; ++i) told += findings.add({Misuse::wr_order, ""}, std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(told, 200);
  EXPECT_EQ(findings.summary(0), "0 work requests validated, misuses found: wr-order 1000");
}

}  // namespace
}  // namespace uroce::validate
