#include "uroce/show.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cm/address.h"
#include "uroce/table.h"

namespace uroce::cli {
namespace {

Gid ipv4(std::string_view text) { return cm::parse_address(text).value(); }

TEST(Table, AlignsAndEndsLinesCleanly) {
  EXPECT_EQ(table({{"NAME"}, {"N", true}, {"X"}}, {{"a", "1", ""}, {"longer", "200", "y"}}),
            "NAME      N  X\n"
            "a         1\n"
            "longer  200  y\n");
  EXPECT_EQ(table({{"A"}}, {}), "A\n");
}

TEST(Table, LetsNobodyWriteToTheTerminal) { EXPECT_EQ(printable("a\x1b[2J\n\xff z"), "a?[2J?? z"); }

TEST(Table, NumbersInUnits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(bytes_text(~uint64_t{0}), "16384 PiB");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(999.4), "999");
  EXPECT_EQ(short_number(999.9), "1.0 k");
  EXPECT_EQ(short_number(123456), "123 k");
  EXPECT_EQ(short_number(5.25e6), "5.2 M");
}

TEST(Show, Devices) {
  DeviceRow row;
  row.name = "uroce0";
  row.driver = "net_ring";
  row.mac = {{2, 0, 0, 0, 0, 1}};
  row.gids = {ipv4("10.117.0.1"), ipv4("fe80::1")};
  row.active_mtu = Mtu::mtu4096;
  row.link_up = true;
  EXPECT_EQ(to_table(std::vector{row}),
            "DEVICE  DRIVER    LINK   MTU  ENGINES  MAC                ADDRESSES\n"
            "uroce0  net_ring  up    4096        1  02:00:00:00:00:01  10.117.0.1,fe80::1\n");
  const auto json = nlohmann::json::parse(to_json(std::vector{row}));
  EXPECT_EQ(json[0]["device"], "uroce0");
  EXPECT_EQ(json[0]["mtu"], 4096);
  EXPECT_EQ(json[0]["addresses"][1], "fe80::1");
  EXPECT_EQ(to_json(std::vector<DeviceRow>{}), "[]");
}

TEST(Show, QueuePairs) {
  const std::vector<QpRow> rows{{.device = "uroce0",
                                 .qpn = 0x11,
                                 .type = QpType::rc,
                                 .state = QpState::rts,
                                 .client = 3,
                                 .peer = ipv4("10.117.0.2"),
                                 .peer_qpn = 0x12,
                                 .sq_psn = 7,
                                 .rq_psn = 8,
                                 .outstanding = 2,
                                 .retransmissions = 5},
                                {.device = "uroce1", .qpn = 0xffffff, .type = QpType::ud, .state = QpState::error}};
  EXPECT_EQ(
      to_table(rows),
      "DEVICE  QPN       TYPE  STATE  CLIENT  PEER        PEER QPN  SQ PSN  RQ PSN  ENGINE  OUTSTANDING  RESENT\n"
      "uroce0  0x000011  RC    RTS         3  10.117.0.2  0x000012       7       8       0            2       5\n"
      "uroce1  0xffffff  UD    ERROR       0  -           -              0       0       0            0       0\n");
  const auto json = nlohmann::json::parse(to_json(rows));
  EXPECT_EQ(json[0]["peer"], "10.117.0.2");
  EXPECT_EQ(json[0]["state"], "RTS");
  EXPECT_TRUE(json[1]["peer"].is_null());
}

TEST(Show, RegionsAndQueues) {
  const std::vector<MrRow> regions{{.device = "uroce0",
                                    .key = 0xab,
                                    .length = 4096,
                                    .access = Access::local_write | Access::remote_read,
                                    .client = 1},
                                   {.device = "uroce0", .key = 0xac, .length = 1}};
  EXPECT_EQ(to_table(regions),
            "DEVICE  KEY          LENGTH  ACCESS                   CLIENT\n"
            "uroce0  0x000000ab  4.0 KiB  local_write|remote_read       1\n"
            "uroce0  0x000000ac      1 B  local_read                    0\n");
  EXPECT_EQ(nlohmann::json::parse(to_json(regions))[0]["length"], 4096);
  const std::vector<CqRow> queues{{.device = "uroce0", .id = 4, .entries = 256, .client = 1}};
  EXPECT_EQ(to_table(queues), "DEVICE  CQ  ENTRIES  CLIENT\nuroce0   4      256       1\n");
  EXPECT_EQ(nlohmann::json::parse(to_json(queues))[0]["entries"], 256);
}

TEST(Show, ClientsWhateverTheyAreCalled) {
  ClientRow row;
  row.id = 1;
  row.pid = 42;
  row.command = "ib\x1b[2J\xff";
  row.queue_bytes = 8192;
  const std::string text = to_table(std::vector{row});
  EXPECT_NE(text.find("ib?[2J?"), std::string::npos) << text;
  EXPECT_NE(text.find("8.0 KiB"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(to_json(std::vector{row}));
  EXPECT_EQ(json[0]["pid"], 42);
  EXPECT_TRUE(json[0]["device"].is_null());
}

}  // namespace
}  // namespace uroce::cli
