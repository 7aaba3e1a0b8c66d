#include "uroce/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace uroce::cli {
namespace {

std::vector<message::HistoryRow> two_programs() {
  return {{.number = 1,
           .client = 3,
           .pid = 40,
           .uid = 1001,
           .command = "fio",
           .device = "uroce0",
           .qpn = 0x11,
           .text = "queue pair 0x11: INIT",
           .ago_ms = 700'000},
          {.number = 2, .client = 4, .pid = 41, .command = "rp\x1bing", .text = "came", .ago_ms = 12'000},
          {.number = 3,
           .client = 3,
           .pid = 40,
           .uid = 1001,
           .command = "fio",
           .gone = true,
           .trouble = true,
           .text = "refused: no",
           .times = 3,
           .ago_ms = 1'500}};
}

TEST(Explain, KnowsItsSubjects) {
  EXPECT_EQ(history_of("0x11").qpn, 0x11u);
  EXPECT_EQ(history_of("4711").pid, 4711);
  EXPECT_EQ(history_of("ib_write_bw").command, "ib_write_bw");
  EXPECT_EQ(history_of("0xzz").command, "0xzz");
  EXPECT_EQ(history_of("ibv_xsrq_pingpong").command, "ibv_xsrq_pingpo") << "as the kernel has it";
  const auto all = history_of("");
  EXPECT_EQ(all.qpn, 0u);
  EXPECT_EQ(all.pid, 0);
  EXPECT_EQ(all.command, "");
}

TEST(Explain, TellsTheEventsOfEachProgramAndItsLastTrouble) {
  EXPECT_EQ(explanation(two_programs()),
            "fio, process 40, user 1001, client 3\n"
            "  11 min ago   queue pair 0x11: INIT\n"
            "   1.5 s ago ! refused: no (3 times)\n"
            "The last trouble: refused: no\n"
            "\n"
            "rp?ing, process 41, user 0, client 4\n"
            "    12 s ago   came\n"
            "Nothing went wrong here.\n");
}

TEST(Explain, Json) {
  const auto all = nlohmann::json::parse(explanation_json(two_programs()));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["pid"], 40);
  EXPECT_EQ(all[0]["trouble"], "refused: no");
  EXPECT_EQ(all[0]["events"][0]["qpn"], 0x11);
  EXPECT_EQ(all[0]["events"][1]["times"], 3);
  EXPECT_TRUE(all[0]["events"][1]["qpn"].is_null());
  EXPECT_TRUE(all[1]["trouble"].is_null());
}

}  // namespace
}  // namespace uroce::cli
