#include "uroce/command_line.h"

#include <gtest/gtest.h>

#include <vector>

#include "net/address.h"

namespace uroce::cli {
namespace {

std::expected<Options, EarlyExit> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "uroce");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

TEST(UroceCommandLine, NamesWhatToShow) {
  const auto devices = parse({"devices", "--json", "--socket", "/s"});
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->command, Command::devices);
  EXPECT_TRUE(devices->json);
  EXPECT_EQ(devices->source.socket, "/s");
  const auto clients = parse({"show", "client", "uroce1"});
  ASSERT_TRUE(clients);
  EXPECT_EQ(clients->command, Command::show_client);
  EXPECT_EQ(clients->source.device, "uroce1");
  for (const ObjectKind& kind : object_kinds()) {
    const auto options = parse({"show", kind.name, "uroce1", "--pid", "42"});
    ASSERT_TRUE(options) << kind.name;
    EXPECT_EQ(options->command, Command::show_objects);
    EXPECT_EQ(options->objects, &kind);
    EXPECT_EQ(options->source.device, "uroce1");
    EXPECT_EQ(options->filter.pid, 42);
  }
}

TEST(UroceCommandLine, FiltersByWhatAnObjectHas) {
  const auto qp = parse({"show", "qp", "--qpn", "0x11", "--address", "10.0.0.2"});
  ASSERT_TRUE(qp);
  EXPECT_EQ(qp->filter.qpn, 0x11u);
  EXPECT_EQ(qp->filter.address, net::parse_address("10.0.0.2").value());
  EXPECT_TRUE(parse({"show", "cm_id", "--address", "fe80::1"}));
  EXPECT_EQ(parse({"show", "cm_id", "--qpn", "1"}).error().code, 2);
  EXPECT_EQ(parse({"show", "mr", "--address", "10.0.0.2"}).error().code, 2);
  EXPECT_EQ(parse({"show", "user", "--pid", "1"}).error().code, 2);
  const auto wrong = parse({"show", "qp", "--address", "10.0.0"});
  EXPECT_EQ(wrong.error().code, 2);
  EXPECT_NE(wrong.error().text.find("10.0.0"), std::string::npos) << wrong.error().text;
}

TEST(UroceCommandLine, HelpExplainsEachField) {
  const std::string help = parse({"show", "cq", "--help"}).error().text;
  EXPECT_NE(help.find("  unread   completions that were not polled yet"), std::string::npos) << help;
}

TEST(UroceCommandLine, StatsOnceOrAgainAndAgain) {
  EXPECT_EQ(parse({"stat"})->count, 1u);
  EXPECT_EQ(parse({"stat"})->interval_s, 1);
  EXPECT_EQ(parse({"stat", "--interval", "0"})->count, 1u);
  EXPECT_EQ(parse({"stat", "--interval", "5"})->count, 0u);
  EXPECT_EQ(parse({"stat", "--interval", "5", "--count", "3"})->count, 3u);
  EXPECT_EQ(parse({"top"})->count, 0u);
}

TEST(UroceCommandLine, TheSocketMayComeFirst) {
  for (const auto& words : std::vector<std::vector<const char*>>{{"--socket", "/s", "show", "qp"},
                                                                 {"show", "--socket", "/s", "qp"},
                                                                 {"show", "qp", "--socket", "/s"},
                                                                 {"--socket", "/t", "show", "qp", "--socket", "/s"}}) {
    const auto options = parse(words);
    ASSERT_TRUE(options) << options.error().text;
    EXPECT_EQ(options->source.socket, "/s");
  }
}

TEST(UroceCommandLine, TracesAQueuePair) {
  const auto options = parse({"trace", "--qp", "0x11", "--count", "3"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->command, Command::trace);
  EXPECT_EQ(options->qp, 0x11u);
  EXPECT_EQ(options->count, 3u);
}

TEST(UroceCommandLine, PingsOrAnswers) {
  const auto ping = parse({"ping", "10.0.0.2"});
  ASSERT_TRUE(ping);
  EXPECT_EQ(ping->command, Command::ping);
  EXPECT_EQ(ping->address, "10.0.0.2");
  EXPECT_TRUE(parse({"ping", "--answer"})->answer);
  EXPECT_EQ(parse({"ping"}).error().code, 2);
  EXPECT_EQ(parse({"ping", "10.0.0.2", "--answer"}).error().code, 2);
  const auto explain = parse({"explain", "0x11", "--json"});
  ASSERT_TRUE(explain);
  EXPECT_EQ(explain->subject, "0x11");
  EXPECT_TRUE(explain->json);
  EXPECT_EQ(parse({"explain"})->subject, "");
}

TEST(UroceCommandLine, StopsAReplayAtAPacketOrAPsn) {
  const auto number = parse({"replay", "f", "--stop-at", "12"});
  ASSERT_TRUE(number);
  EXPECT_EQ(number->stop_at, 12u);
  const auto psn = parse({"replay", "f", "--qp", "0x11", "--stop-at", "psn=0x123"});
  ASSERT_TRUE(psn);
  EXPECT_EQ(psn->stop_psn, 0x123u);
  EXPECT_EQ(parse({"replay", "f", "--stop-at", "psn=1"}).error().text,
            "uroce: \"--stop-at psn=\" needs the queue pair, --qp; see uroce --help");
  for (const char* wrong : {"0", "psn=", "psn=0x1000000", "3x", "-1"}) {
    EXPECT_FALSE(parse({"replay", "f", "--qp", "1", "--stop-at", wrong})) << wrong;
  }
  const auto dump = parse({"record", "dump", "f", "--qp", "0x11", "--pcap", "-"});
  ASSERT_TRUE(dump);
  EXPECT_EQ(dump->command, Command::record_dump);
  EXPECT_EQ(dump->pcap, "-");
}

TEST(UroceCommandLine, NamesAnUnknownWordAndTheOthers) {
  const std::string commands =
      "devices, show, stat, top, capture, trace, ping, explain, fault, record, replay or doctor";
  const std::string objects = "qp, cm_id, mr, mw, pd, cq, srq, ah, xrcd, flow, client, user, peer or restart";
  EXPECT_EQ(parse({"foo"}).error().text,
            "uroce: unknown word 'foo' behind \"uroce\"; write " + commands + "; see uroce --help");
  EXPECT_EQ(parse({"show", "foo"}).error().text,
            "uroce: unknown word 'foo' behind \"uroce show\"; write " + objects + "; see uroce --help");
  EXPECT_EQ(parse({"show"}).error().text,
            "uroce: a word is missing behind \"uroce show\"; write " + objects + "; see uroce --help");
  EXPECT_EQ(parse({"devices", "stat"}).error().text,
            "uroce: unexpected word 'stat' behind \"uroce devices\"; leave it out; see uroce --help");
  EXPECT_EQ(parse({"ping"}).error().text,
            "uroce: \"uroce ping\" needs the peer's address, or --answer; see uroce --help");
}

TEST(UroceCommandLine, SaysThatTheDaemonAnswersPings) {
  const std::string help = parse({"ping", "--help"}).error().text;
  for (const char* part : {"A uroced also answers messages", "daemon.answer_pings, device.answer_pings"}) {
    EXPECT_NE(help.find(part), std::string::npos) << help;
  }
}

TEST(UroceCommandLine, RefusesWhatItDoesNotKnow) {
  for (const auto& words : std::vector<std::vector<const char*>>{{},
                                                                 {"nonsense"},
                                                                 {"show"},
                                                                 {"show", "nonsense"},
                                                                 {"stat", "--interval", "-1"},
                                                                 {"stat", "--openmetrics", "--json"},
                                                                 {"stat", "--openmetrics", "--interval", "1"},
                                                                 {"trace"},
                                                                 {"top", "--interval", "0"}}) {
    const auto options = parse(words);
    ASSERT_FALSE(options);
    EXPECT_EQ(options.error().code, 2);
  }
  EXPECT_EQ(parse({"--help"}).error().code, 0);
  EXPECT_EQ(parse({"--version"}).error().code, 0);
}

}  // namespace
}  // namespace uroce::cli
