// The parameter exchange: each message comes back as it was sent, and a stranger's is undecodable with a reason.
#include "perf/exchange.h"

#include <gtest/gtest.h>

#include <random>

namespace uroce::perf {
namespace {

std::string framed(const std::string& text) {
  std::string bytes = "uroc";
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(text.size() >> shift));
  return bytes + text;
}

Message hello() {
  Message m;
  m.type = MessageType::hello;
  Hello& h = m.hello;
  h.parameters = {"write_bw", 65536, false, 5000, 0, 2, true, true, "FETCH_AND_ADD", 4096, true};
  h.gid = Gid::from_ipv4(0x0a750001);
  h.port_mtu = 4096;
  h.reads = 128;
  h.rkey = 0xdeadbeef;
  h.remote_base = 0xffff'8000'0000'0000;
  h.remote_bytes = 1 << 20;
  h.cm_port = 4711;
  h.device = "uroce0";
  h.qps = {{0x11, 0xabcdef}, {0xffffff, 0}};
  return m;
}

Message round_trip(const Message& m) {
  const std::string bytes = encode(m);
  const auto decoded = decode(bytes);
  EXPECT_TRUE(decoded.has_value()) << (decoded ? "" : decoded.error().text);
  if (!decoded || !decoded->message) return {};
  EXPECT_EQ(decoded->used, bytes.size());
  EXPECT_EQ(decoded->message->type, m.type);
  return *decoded->message;
}

std::string undecodable(const std::string& bytes) {
  const auto decoded = decode(bytes);
  EXPECT_FALSE(decoded.has_value()) << bytes;
  if (decoded) return {};
  EXPECT_EQ(decoded.error().code, EPROTO);
  EXPECT_EQ(decoded.error().text.find('\n'), std::string::npos);
  return decoded.error().text;
}

TEST(Exchange, HelloComesBack) {
  const Message sent = hello();
  const Hello h = round_trip(sent).hello;
  EXPECT_FALSE(difference(h.parameters, sent.hello.parameters));
  EXPECT_EQ(h.parameters.mtu, 4096u);
  EXPECT_EQ(h.gid, sent.hello.gid);
  EXPECT_EQ(h.port_mtu, 4096u);
  EXPECT_EQ(h.reads, 128u);
  EXPECT_EQ(h.rkey, 0xdeadbeefu);
  EXPECT_EQ(h.remote_base, 0xffff'8000'0000'0000u);
  EXPECT_EQ(h.remote_bytes, 1u << 20);
  EXPECT_TRUE(h.parameters.rdma_cm);
  EXPECT_EQ(h.cm_port, 4711);
  EXPECT_EQ(h.device, "uroce0");
  ASSERT_EQ(h.qps.size(), 2u);
  EXPECT_EQ(h.qps[0].psn, 0xabcdefu);
  EXPECT_EQ(h.qps[1].qpn, 0xffffffu);
}

TEST(Exchange, OtherMessagesComeBack) {
  Message m;
  for (const MessageType type : {MessageType::ready, MessageType::beat, MessageType::filled, MessageType::checked}) {
    m.type = type;
    round_trip(m);
  }
  m.type = MessageType::go;
  m.size = kMaxMessage;
  EXPECT_EQ(round_trip(m).size, kMaxMessage);
  m.type = MessageType::stop;
  m.count = 123456789012;
  EXPECT_EQ(round_trip(m).count, 123456789012u);
  m.type = MessageType::fill;
  m.round = {64, 1000, 128};
  EXPECT_EQ(round_trip(m).round.first, 1000u);
  EXPECT_EQ(round_trip(m).round.count, 128u);
  m.type = MessageType::error;
  m.text = "port \"uroce0\" is down";
  EXPECT_EQ(round_trip(m).text, m.text);
}

TEST(Exchange, ReportComesBack) {
  Message m;
  m.type = MessageType::done;
  m.report = {64, 1000, 0.25, 5e6, {1, 2, 3, 4, 5, 6, 7}, 42};
  const SizeReport r = round_trip(m).report;
  EXPECT_EQ(r.iterations, 1000u);
  EXPECT_DOUBLE_EQ(r.rate(), 4000);
  EXPECT_DOUBLE_EQ(r.peak_rate, 5e6);
  EXPECT_DOUBLE_EQ(r.latency.typical, 3);
  EXPECT_DOUBLE_EQ(r.latency.p999, 7);
  EXPECT_EQ(r.verified, 42u);
}

TEST(Exchange, MessageInPiecesWaitsForItsEnd) {
  const std::string bytes = encode(hello());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto decoded = decode(std::span(bytes.data(), n));
    ASSERT_TRUE(decoded.has_value()) << n;
    EXPECT_FALSE(decoded->message) << n;
    EXPECT_EQ(decoded->used, 0u);
  }
}

TEST(Exchange, TwoMessagesAreTakenOneByOne) {
  Message beat;
  const std::string first = encode(beat);
  const std::string both = first + encode(hello());
  const auto decoded = decode(both);
  ASSERT_TRUE(decoded && decoded->message);
  EXPECT_EQ(decoded->message->type, MessageType::beat);
  EXPECT_EQ(decoded->used, first.size());
}

TEST(HostileInput, IsRefusedWithAReason) {
  EXPECT_NE(undecodable("GET / HTTP/1.1\r\n").find("-p"), std::string::npos);
  EXPECT_NE(undecodable("x").find("uroc"), std::string::npos);
  EXPECT_NE(undecodable(std::string("uroc\xff\xff\xff\xff", 8)).find("4294967295"), std::string::npos);
  EXPECT_NE(undecodable(framed("{")).find("JSON"), std::string::npos);
  EXPECT_NE(undecodable(framed("")).find("JSON"), std::string::npos);
  EXPECT_NE(undecodable(framed("[1]")).find("JSON"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"type\":\"beat\"}")).find("version"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":99,\"type\":\"beat\"}")).find("99"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":\"bang\"}")).find("bang"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":7}")).find("type"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":\"stop\",\"count\":-1}")).find("count"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":\"stop\",\"count\":1.5}")).find("count"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":\"stop\"}")).find("count"), std::string::npos);
  EXPECT_NE(undecodable(framed("{\"version\":2,\"type\":\"go\",\"size\":99999999999}")).find("size"),
            std::string::npos);
}

TEST(HostileInput, DeepNestingCostsNothing) {
  EXPECT_NE(undecodable(framed(std::string(1 << 20, '['))).find("nested"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(undecodable(framed(objects)).find("nested"), std::string::npos);
}

TEST(HostileInput, HelloOutOfRangeIsRefused) {
  const std::string good = encode(hello()).substr(kPrefixBytes);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return framed(text.replace(at, from.size(), to));
  };
  EXPECT_NE(undecodable(with("[17,11259375]", "[16777216,0]")).find("qps"), std::string::npos);
  EXPECT_NE(undecodable(with("[17,11259375]", "[17]")).find("qps"), std::string::npos);
  EXPECT_NE(undecodable(with("[17,11259375]", "17")).find("qps"), std::string::npos);
  EXPECT_NE(undecodable(with("00000000000000000000ffff0a750001", "0a750001")).find("gid"), std::string::npos);
  EXPECT_NE(undecodable(with("00000000000000000000ffff0a750001", "zz000000000000000000ffff0a750001")).find("gid"),
            std::string::npos);
  EXPECT_NE(undecodable(with("\"port_mtu\":4096", "\"port_mtu\":0")).find("port_mtu"), std::string::npos);
  EXPECT_NE(undecodable(with("\"port_mtu\":4096", "\"port_mtu\":9000")).find("port_mtu"), std::string::npos);
  EXPECT_NE(undecodable(with("\"reads\":128", "\"reads\":4096")).find("reads"), std::string::npos);
  EXPECT_NE(undecodable(with("\"rkey\":3735928559", "\"rkey\":4294967296")).find("rkey"), std::string::npos);
  EXPECT_NE(undecodable(with("\"verify\":true", "\"verify\":1")).find("verify"), std::string::npos);
  EXPECT_NE(undecodable(with("\"device\":\"uroce0\"", "\"device\":null")).find("device"), std::string::npos);
}

TEST(HostileInput, TextCannotControlTheTerminal) {
  const auto decoded = decode(framed(R"({"version":2,"type":"error","text":"a\u001b[2Jb\nc"})"));
  ASSERT_TRUE(decoded && decoded->message);
  EXPECT_EQ(decoded->message->text, "a?[2Jb?c");
}

TEST(HostileInput, RandomDamageNeverDoesMoreThanFail) {
  const std::string good = encode(hello());
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const auto decoded = decode(bytes);
    if (decoded && decoded->message) {
      EXPECT_LE(decoded->used, bytes.size());
      for (const QpAddress& qp : decoded->message->hello.qps) EXPECT_LE(qp.qpn | qp.psn, 0xffffffu);
    }
  }
}

TEST(SharedParameters, DifferenceNamesTheOption) {
  const SharedParameters same = hello().hello.parameters;
  const auto differs = [&](auto change) {
    SharedParameters other = same;
    change(other);
    return difference(same, other).value_or("no difference");
  };
  EXPECT_FALSE(difference(same, same));
  EXPECT_NE(differs([](auto& p) { p.test = "read_bw"; }).find("write_bw here and read_bw"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.size = 8; }).find("-s is 65536 here and 8"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.iters = 8; }).find("-n"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.duration_s = 8; }).find("-D"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.qps = 8; }).find("-q"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.bidirectional = false; }).find("-b"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.verify = false; }).find("--verify"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.all = true; }).find("-a"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.atomic_type = "CMP_AND_SWAP"; }).find("-A"), std::string::npos);
  EXPECT_NE(differs([](auto& p) { p.mtu = 1024; }).find("-m"), std::string::npos);
  EXPECT_EQ(differs([](auto& p) { p.mtu = 0; }), "no difference");  // one side may leave it to the other
}

}  // namespace
}  // namespace uroce::perf
