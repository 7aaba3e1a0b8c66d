#include "uroce/show.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "net/address.h"
#include "uroce/filter.h"
#include "uroce/table.h"
#include "uroce/values.h"

namespace uroce::cli {
namespace {

Gid ipv4(std::string_view text) { return net::parse_address(text).value(); }

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
  EXPECT_EQ(age_text(1540), "1.5 s ago");
  EXPECT_EQ(age_text(599'000), "599 s ago");
  EXPECT_EQ(age_text(3'600'000), "60 min ago");
  EXPECT_EQ(age_text(36'000'000), "10 h ago");
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
            "DEVICE  DRIVER    LINK   MTU  ENGINES  SENDING   MAC                SOURCE  ADDRESSES\n"
            "uroce0  net_ring  up    4096        1  net_ring  02:00:00:00:00:01  own     10.117.0.1,fe80::1\n");
  const auto json = nlohmann::json::parse(to_json(std::vector{row}));
  EXPECT_EQ(json[0]["device"], "uroce0");
  EXPECT_EQ(json[0]["mtu"], 4096);
  EXPECT_EQ(json[0]["addresses"][1], "fe80::1");
  EXPECT_EQ(json[0]["source"], "own");
  row.kernel_interface = "eth0";
  EXPECT_NE(to_table(std::vector{row}).find("  kernel eth0  10.117.0.1"), std::string::npos);
  EXPECT_EQ(to_json(std::vector<DeviceRow>{}), "[]");
}

TEST(Show, HowADeviceSends) {
  DeviceRow row;
  row.driver = "net_uroce_kif";
  const auto shown = [&](Sending sending) {
    row.sending = sending;
    const std::string text = nlohmann::json::parse(to_json(std::vector{row}))[0]["sending"];
    EXPECT_NE(to_table(std::vector{row}).find("  1  " + text + "  "), std::string::npos);
    return text;
  };
  EXPECT_EQ(shown(Sending::by_driver), "net_uroce_kif");
  EXPECT_EQ(shown(Sending::super_frames), "super-frames");
  EXPECT_EQ(shown(Sending::single_by_kernel), "single frames (kernel without UDP segmentation)");
  EXPECT_EQ(shown(Sending::single_refused), "single frames (super-frames refused)");
  EXPECT_EQ(shown(Sending::single_by_choice), "single frames (super_frames=no)");
  EXPECT_EQ(shown(static_cast<Sending>(200)), "net_uroce_kif") << "a later daemon's";
}

TEST(Show, ObjectsWithWhatTheDaemonTells) {
  const std::vector<ObjectRow> rows{{.device = "uroce0",
                                     .client = 3,
                                     .pid = 42,
                                     .command = "rping",
                                     .values = {{"qpn", "0x000011"}, {"state", "RTS"}, {"sq_psn", "7"}}},
                                    {.client = 12,
                                     .pid = 4711,
                                     .command = "a\x1b",
                                     .values = {{"qpn", "0xffffff"}, {"state", "\x1b[2J"}, {"dgid", ""}}}};
  EXPECT_EQ(to_table(rows),
            "DEVICE  CLIENT   PID  COMMAND  QPN       STATE  SQ PSN  DGID\n"
            "uroce0       3    42  rping    0x000011  RTS         7  -\n"
            "-           12  4711  a?       0xffffff  ?[2J        -  -\n");
  EXPECT_EQ(to_table(rows, 40),
            "DEVICE   PID  COMMAND  QPN       STATE\n"
            "uroce0    42  rping    0x000011  RTS\n"
            "-       4711  a?       0xffffff  ?[2J\n");
  const auto json = nlohmann::json::parse(to_json(rows));
  EXPECT_EQ(json[0]["sq_psn"], 7);
  EXPECT_EQ(json[0]["qpn"], "0x000011");
  EXPECT_EQ(json[0]["pid"], 42);
  EXPECT_EQ(json[0]["command"], "rping");
  EXPECT_TRUE(json[1]["dgid"].is_null());
  EXPECT_TRUE(json[1]["device"].is_null());
  EXPECT_EQ(to_table(std::vector<ObjectRow>{}), "DEVICE  CLIENT  PID  COMMAND\n");
}

TEST(Show, RowsThatAFilterChooses) {
  const ObjectRow qp{.pid = 42, .values = {{"qpn", "0x000011"}, {"dest_qpn", "0x000012"}, {"dgid", "10.0.0.2"}}};
  EXPECT_TRUE(chooses({}, qp));
  EXPECT_TRUE(chooses({.pid = 42, .qpn = 0x12, .address = ipv4("10.0.0.2")}, qp));
  EXPECT_TRUE(chooses({.qpn = 0x11}, qp));
  EXPECT_FALSE(chooses({.pid = 43}, qp));
  EXPECT_FALSE(chooses({.qpn = 0x1}, qp));
  EXPECT_FALSE(chooses({.address = ipv4("10.0.0.20")}, qp));
  const ObjectRow id{.values = {{"local", "[fe80::1]:7471"}, {"remote", "10.0.0.2:20"}, {"state", "10.0.0.9"}}};
  EXPECT_TRUE(chooses({.address = ipv4("fe80::1")}, id));
  EXPECT_TRUE(chooses({.address = ipv4("10.0.0.2")}, id));
  EXPECT_FALSE(chooses({.address = ipv4("10.0.0.9")}, id));
  EXPECT_FALSE(chooses({.qpn = 0x11}, id));
  for (const char* text : {"", "[", "[fe80", ":", "x:1", "0x"}) {
    const ObjectRow odd{.values = {{"local", text}, {"qpn", text}}};
    EXPECT_FALSE(chooses({.address = ipv4("10.0.0.9")}, odd)) << text;
    EXPECT_FALSE(chooses({.qpn = 0}, odd)) << text;
  }
}

TEST(Values, InPeoplesWords) {
  EXPECT_EQ(readable("dgid", "0000:0000:0000:0000:0000:ffff:0a75:0001"), "10.117.0.1");
  EXPECT_EQ(readable("dgid", "0000:0000:0000:0000:0000:0000:0000:0000"), "");
  EXPECT_EQ(readable("dgid", "fe80"), "fe80");
  EXPECT_EQ(readable("dgid", std::string(33, '1')), std::string(33, '1'));
  EXPECT_EQ(readable("access", "0x5"), "local_write|remote_read");
  EXPECT_EQ(readable("access", "0x0"), "local_read");
  EXPECT_EQ(readable("access", "5"), "5");
  EXPECT_EQ(readable("qpn", "0x5"), "0x5");
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

TEST(Show, PeersThatGuess) {
  const std::vector<PeerRow> rows{
      {"uroce0", {.peer = ipv4("10.0.0.9"), .guesses = {{"rkey", 12}, {"cm_id", 0}}, .last_ms = 1540}}};
  EXPECT_EQ(to_table(rows),
            "DEVICE  PEER      RKEY  CM ID       LAST\n"
            "uroce0  10.0.0.9    12      0  1.5 s ago\n");
  const auto json = nlohmann::json::parse(to_json(rows));
  EXPECT_EQ(json[0]["peer"], "10.0.0.9");
  EXPECT_EQ(json[0]["guesses"]["rkey"], 12);
  EXPECT_EQ(json[0]["last_ms"], 1540);
  EXPECT_EQ(to_table(std::vector<PeerRow>{}), "DEVICE  PEER  LAST\n");
}

}  // namespace
}  // namespace uroce::cli
