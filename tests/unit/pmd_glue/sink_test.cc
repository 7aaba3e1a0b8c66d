#include "pmd_glue/sink.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "base/random.h"
#include "ports.h"

namespace uroce::glue {
namespace {

std::vector<std::byte> random_bytes(std::size_t n, uint64_t seed = 7) {
  Random random(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

struct SinkOnRings {
  explicit SinkOnRings(PairOptions options = {}) : pair(options) {}
  PortPair pair;
  Engines engines{"sink-test", 4};
  Handover* handover = engines.handover.get();
  QueuePath path{*pair.a, 0};
  EtherSink sink{*pair.a, path, *handover, nullptr};
};

TEST(EtherSink, SendsWhatParsesAndHasTheRightIcrc) {
  SinkOnRings t;
  const auto bytes = random_bytes(4096);
  uint32_t psn = 0;
  for (const uint32_t length : {0u, 1u, 2u, 3u, 4u, 255u, 256u, 257u, 300u, 1024u, 4095u, 4096u}) {
    for (const bool ipv6 : {false, true}) {
      // Three spans of uneven length where there is enough.
      const uint32_t cut = length / 3;
      std::vector<transport::PayloadSpan> spans{{bytes.data(), cut}, {bytes.data() + cut, length - cut}};
      TestFrame f(0x123, psn, spans, ipv6);
      ASSERT_GT(t.sink.room(), 0u);
      t.sink.send({&f.frame, 1});
      const auto got = receive_all(*t.pair.b);
      ASSERT_EQ(got.size(), 1u);
      const auto packet = wire::parse(got[0]);
      ASSERT_TRUE(packet) << length << ": " << wire::name(packet.error());
      EXPECT_EQ(packet->bth.psn.value(), psn++);
      ASSERT_EQ(packet->payload.size(), length);
      EXPECT_TRUE(std::equal(packet->payload.begin(), packet->payload.end(), bytes.begin()));
      EXPECT_EQ(got[0].size(), f.frame.header_length + length + f.frame.pad + 4u) << "nothing after the ICRC";
    }
  }
}

/// The frames in a port's capture file, one after the other.
std::vector<std::vector<std::byte>> read_pcap(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> raw((std::istreambuf_iterator<char>(file)), {});
  const auto* p = reinterpret_cast<const std::byte*>(raw.data());
  std::vector<std::vector<std::byte>> out;
  for (std::size_t at = 24; at + 16 <= raw.size();) {
    const uint32_t length = load_le32(p + at + 8);
    out.emplace_back(p + at + 16, p + at + 16 + length);
    at += 16 + length;
  }
  return out;
}

TEST(EtherSink, ReferencedPayloadGivesTheSameBytesAsCopied) {
  const auto bytes = random_bytes(4096);
  std::vector<std::vector<std::vector<std::byte>>> captures;
  for (const auto mode : {StackOptions::TxMode::copy, StackOptions::TxMode::external}) {
    const std::string file = "/tmp/uroce-sink-" + std::to_string(getpid()) + ".pcap";
    {
      Vdev vdev("net_pcap_sink", "tx_pcap=" + file);
      PortOptions options;
      options.rx_descriptors = options.tx_descriptors = 128;
      options.tx_mode = mode;
      auto port = EthdevPort::open(vdev.port(), options);
      ASSERT_TRUE(port) << port.error().text;
      ASSERT_TRUE((*port)->start());
      EXPECT_EQ((*port)->path_mtu(), Mtu::mtu4096);
      const Engines one("pcap-test", 1);
      rte_mempool* small = rte_pktmbuf_pool_create("small", 511, 0, 0, RTE_PKTMBUF_HEADROOM + 64, SOCKET_ID_ANY);
      {
        QueuePath path(**port, 0);
        EtherSink sink(**port, path, *one.handover, small);
        for (const uint32_t length : {8u, 511u, 512u, 513u, 4094u, 4096u}) {
          std::vector<transport::PayloadSpan> spans{{bytes.data(), 5}, {bytes.data() + 5, length - 5}};
          TestFrame f(0x123, length, spans);
          ASSERT_GT(sink.room(), 0u);
          sink.send({&f.frame, 1});
          TestFrame volatile_payload(0x123, length, {{bytes.data(), length}});
          volatile_payload.frame.copy_payload = true;
          ASSERT_GT(sink.room(), 0u);
          sink.send({&volatile_payload.frame, 1});
        }
        EXPECT_EQ(sink.counters().external_frames.get(), mode == StackOptions::TxMode::external ? 4u : 0u)
            << "from 512 bytes on, and not what must be copied";
        EXPECT_FALSE(sink.references_payload()) << "this port has written everything";
      }
      EXPECT_EQ(rte_mempool_avail_count(small), 511u) << "all small buffers are back";
      (*port)->close();
      port->reset();
      rte_mempool_free(small);
    }
    captures.push_back(read_pcap(file));
    std::filesystem::remove(file);
  }
  ASSERT_EQ(captures[0].size(), 12u);
  EXPECT_TRUE(captures[0] == captures[1]);
  for (const auto& frame : captures[1]) EXPECT_TRUE(wire::parse(frame)) << "with a valid ICRC";
}

TEST(EtherSink, RingPortsNeverSendReferences) {
  PairOptions options;
  options.port.tx_mode = StackOptions::TxMode::external;
  auto rings = RingPair::make(1, 64).value();
  const auto port = EthdevPort::open(rings->ports()[0], options.port);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().text.find("uroce0"), std::string::npos);
  EXPECT_NE(port.error().text.find("copy or automatic"), std::string::npos);
}

TEST(EtherSink, RefusesWhenFullAndLosesNothing) {
  SinkOnRings t;  // 64 slots: 63 frames
  uint32_t sent = 0;
  for (std::size_t room = 0; (room = t.sink.room()) != 0;) {
    ASSERT_LT(sent, 1000u);
    TestFrame f(1, sent++, {});
    t.sink.send({&f.frame, 1});
  }
  EXPECT_EQ(sent, 63 + EtherSink::kPending);
  EXPECT_TRUE(t.sink.pending());
  std::vector<std::vector<std::byte>> got = receive_all(*t.pair.b);
  EXPECT_EQ(got.size(), 63u);
  EXPECT_GT(t.sink.room(), 0u);
  for (int i = 0; i < 10 && t.sink.pending(); ++i) {
    for (auto& frame : receive_all(*t.pair.b)) got.push_back(std::move(frame));
    EXPECT_TRUE(t.sink.flush());
  }
  for (auto& frame : receive_all(*t.pair.b)) got.push_back(std::move(frame));
  ASSERT_EQ(got.size(), sent);
  for (uint32_t i = 0; i < sent; ++i) EXPECT_EQ(wire::parse(got[i])->bth.psn.value(), i);
}

TEST(EtherSink, HasNoRoomWithoutBuffers) {
  SinkOnRings t;
  std::vector<rte_mbuf*> taken;
  while (rte_mbuf* m = rte_pktmbuf_alloc(t.pair.a->pool())) taken.push_back(m);
  EXPECT_EQ(t.sink.room(), 0u);
  EXPECT_EQ(t.sink.counters().buffers_missing.get(), 1u);
  for (rte_mbuf* m : taken) rte_pktmbuf_free(m);
  EXPECT_EQ(t.sink.room(), EtherSink::kPending);
}

TEST(EtherSink, HasNoRoomWhileTheLinkIsDown) {
  SinkOnRings t;
  rte_eth_dev_set_link_down(t.pair.a->id());
  t.pair.a->refresh_link();
  EXPECT_EQ(t.sink.room(), 0u);
  const std::vector<std::byte> arp(42);
  EXPECT_FALSE(t.sink.send_raw(arp));
  rte_eth_dev_set_link_up(t.pair.a->id());
  t.pair.a->refresh_link();
  EXPECT_TRUE(t.sink.send_raw(arp));
  EXPECT_EQ(receive_all(*t.pair.b), (std::vector<std::vector<std::byte>>{arp}));
  EXPECT_FALSE(t.sink.send_raw(std::vector<std::byte>(t.pair.a->max_frame() + 1))) << "longer than the port carries";
}

TEST(EtherSink, HandsLoopbackToTheEngineOfItsQpn) {
  SinkOnRings t;
  const auto bytes = random_bytes(600);
  for (uint32_t qpn = 0; qpn < 8; ++qpn) {
    TestFrame f(0x100 + qpn, qpn, {{bytes.data(), 600}});
    f.frame.loopback = true;
    ASSERT_GT(t.sink.room(), 0u);
    t.sink.send({&f.frame, 1});
  }
  EXPECT_TRUE(receive_all(*t.pair.b).empty()) << "not on the port";
  for (uint32_t engine = 0; engine < 4; ++engine) {
    std::array<rte_mbuf*, 8> out{};
    ASSERT_EQ(t.handover->take(engine, out), 2u);
    for (uint32_t i = 0; i < 2; ++i) {
      const auto packet = wire::parse({rte_pktmbuf_mtod(out[i], const std::byte*), out[i]->data_len});
      ASSERT_TRUE(packet);
      EXPECT_EQ(packet->bth.dest_qpn, 0x100 + engine + 4 * i);
      rte_pktmbuf_free(out[i]);
    }
  }
}

TEST(EtherSink, SendsRawFramesAsTheyAre) {
  SinkOnRings t;
  const auto bytes = random_bytes(1514);
  for (const std::size_t length : {14u, 60u, 128u, 129u, 1514u}) {
    transport::TxFrame frame{};
    const std::size_t head = std::min(length, frame.header.size());
    std::copy_n(bytes.begin(), head, frame.header.begin());
    const transport::PayloadSpan rest{bytes.data() + head, static_cast<uint32_t>(length - head)};
    frame.payload = &rest;
    frame.payload_spans = 1;
    frame.payload_length = rest.length;
    frame.header_length = static_cast<uint16_t>(head);
    frame.raw = frame.copy_payload = true;
    ASSERT_GT(t.sink.room(), 0u);
    t.sink.send({&frame, 1});
    const auto got = receive_all(*t.pair.b);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_TRUE(std::ranges::equal(got[0], std::span(bytes).first(length))) << length;
  }
}

TEST(EtherSink, HandsRawLoopbackToTheEngineOfItsReceiver) {
  SinkOnRings t;
  ASSERT_GT(t.sink.room(), 0u);
  const auto before = rte_mempool_in_use_count(t.pair.a->pool());
  for (const uint32_t receiver : {0u, 0x102u, 0x103u}) {
    transport::TxFrame frame{};
    frame.header_length = 60;
    frame.raw = frame.loopback = true;
    frame.raw_receiver = receiver;
    ASSERT_GT(t.sink.room(), 0u);
    t.sink.send({&frame, 1});
  }
  EXPECT_TRUE(receive_all(*t.pair.b).empty()) << "not on the port";
  for (const uint32_t engine : {2u, 3u}) {
    std::array<rte_mbuf*, 8> out{};
    std::array<Handover::For, 8> why{};
    ASSERT_EQ(t.handover->take(engine, out, why), 1u);
    EXPECT_EQ(why[0], Handover::For::rule);
    EXPECT_EQ(out[0]->data_len, 60u);
    rte_pktmbuf_free(out[0]);
  }
  ASSERT_GT(t.sink.room(), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(t.pair.a->pool()), before) << "one had no receiver";
}

/// True where a wake is due, so that the sleep does not last.
bool wakes(Waker& waker) {
  const auto start = std::chrono::steady_clock::now();
  waker.sleep(std::chrono::seconds(30));
  return std::chrono::steady_clock::now() - start < std::chrono::seconds(20);
}

TEST(EtherSink, WakesTheEngineThatGetsAFrame) {
  SinkOnRings t;
  transport::FlowTable rules;
  t.sink.set_rules(rules);
  transport::TxFrame raw{};
  raw.header_length = 60;
  raw.raw = raw.loopback = true;
  raw.raw_receiver = 0x102;
  TestFrame roce(0x103, 0, {});
  roce.frame.loopback = true;
  for (const auto& [engine, frame] : {std::pair(2u, &raw), {3u, &roce.frame}}) {
    t.engines.wakers[engine]->prepare();
    ASSERT_GT(t.sink.room(), 0u);
    t.sink.send({frame, 1});
    EXPECT_TRUE(wakes(*t.engines.wakers[engine])) << "engine " << engine;
  }
  ASSERT_TRUE(rules.add({.id = 1, .qpn = 0x101, .type = FlowType::sniffer, .pattern = {}}));
  raw.loopback = false;
  t.engines.wakers[1]->prepare();
  ASSERT_GT(t.sink.room(), 0u);
  t.sink.send({&raw, 1});
  EXPECT_TRUE(wakes(*t.engines.wakers[1])) << "a sniffer's";
}

TEST(EtherSink, CopiesWhatItSendsForSniffers) {
  SinkOnRings t;
  ASSERT_GT(t.sink.room(), 0u);
  transport::FlowTable rules;
  t.sink.set_rules(rules);
  const auto before = rte_mempool_in_use_count(t.pair.a->pool());
  const auto send_to = [&](uint8_t first_byte, bool loopback) {
    transport::TxFrame frame{};
    frame.header_length = 60;
    frame.header[0] = std::byte{first_byte};
    frame.raw = true;
    frame.loopback = loopback;
    ASSERT_GT(t.sink.room(), 0u);
    t.sink.send({&frame, 1});
  };
  const auto copies = [&](uint32_t engine) {
    std::array<rte_mbuf*, 8> out{};
    std::array<Handover::For, 8> why{};
    const uint32_t count = t.handover->take(engine, out, why);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(why[i], Handover::For::sniffers);
      EXPECT_EQ(out[i]->data_len, 60u);
      rte_pktmbuf_free(out[i]);
    }
    return count;
  };
  send_to(2, false);
  EXPECT_EQ(copies(2), 0u) << "without a sniffer";
  const auto sniffer = [](uint32_t qpn) {
    return transport::FlowEntry{.id = qpn, .qpn = qpn, .type = FlowType::sniffer, .pattern = {}};
  };
  for (const uint32_t qpn : {0x102u, 0x103u, 0x107u}) ASSERT_TRUE(rules.add(sniffer(qpn)));
  send_to(2, false);
  send_to(2, true);
  send_to(1, false);
  send_to(1, true);
  for (const uint32_t engine : {2u, 3u}) EXPECT_EQ(copies(engine), 3u) << "a frame to a group is copied once";
  ASSERT_TRUE(t.sink.send_raw(std::array<std::byte, 60>{}));
  for (const uint32_t engine : {2u, 3u}) EXPECT_EQ(copies(engine), 1u);
  EXPECT_EQ(receive_all(*t.pair.b).size(), 4u);
  ASSERT_GT(t.sink.room(), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(t.pair.a->pool()), before);
  while (t.sink.counters().sniffer_lost.get() == 0) {
    send_to(2, false);
    receive_all(*t.pair.b);
  }
  rte_mbuf* frame = rte_pktmbuf_alloc(t.pair.a->pool());
  ASSERT_NE(frame, nullptr);
  EXPECT_TRUE(t.handover->put(2, frame)) << "copies leave room for other frames";
}

TEST(EtherSink, KeepsLoopbackThatFindsNoPlace) {
  PairOptions options;
  options.port.engines = 2;
  SinkOnRings t(options);
  uint32_t sent = 0;
  while (t.sink.room() != 0) {
    TestFrame f(1, sent++, {});
    f.frame.loopback = true;
    t.sink.send({&f.frame, 1});
  }
  EXPECT_TRUE(t.sink.pending());
  uint32_t got = 0;
  std::array<rte_mbuf*, 32> out{};
  while (const uint32_t n = t.handover->take(1, out)) {
    for (uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(wire::parse({rte_pktmbuf_mtod(out[i], const std::byte*), out[i]->data_len})->bth.psn.value(), got++);
      rte_pktmbuf_free(out[i]);
    }
    t.sink.flush();
  }
  EXPECT_EQ(got, sent);
}

TEST(EtherSink, ReturnsMulticastToEveryEngineHoweverFullSomeAre) {
  PairOptions options;
  options.port.engines = 2;
  SinkOnRings t(options);
  const auto before = rte_mempool_in_use_count(t.pair.a->pool());
  std::array<rte_mbuf*, 32> out{};
  std::array<uint32_t, 4> got{};
  const auto take = [&](uint32_t engine) {
    const uint32_t n = t.handover->take(engine, out);
    for (uint32_t i = 0; i < n; ++i) {
      const auto packet = wire::parse({rte_pktmbuf_mtod(out[i], const std::byte*), out[i]->data_len});
      EXPECT_EQ(packet->bth.psn.value(), got[engine]++);
      rte_pktmbuf_free(out[i]);
    }
    return n;
  };
  // Engine 1 takes nothing until its ring and the sink are full.
  uint32_t sent = 0;
  for (; t.sink.room() != 0; take(0), take(2), take(3)) {
    TestFrame f(kMulticastQpn, sent++, {});
    f.frame.loopback = true;
    t.sink.send({&f.frame, 1});
  }
  EXPECT_EQ(got[0], sent);
  EXPECT_EQ(got[1], 0u);
  while (take(1) != 0) t.sink.flush();
  EXPECT_EQ(got, (std::array<uint32_t, 4>{sent, sent, sent, sent}));
  EXPECT_FALSE(t.sink.pending());
  EXPECT_LE(rte_mempool_in_use_count(t.pair.a->pool()), before + EtherSink::kPending) << "no more than the stash";
}

TEST(Handover, SendsIndicesWithoutAnEngineToTheFirst) {
  const Engines engines("three", 3);
  const auto& three = engines.handover;
  EXPECT_EQ(three->engine_of(0x102), 2u);
  EXPECT_EQ(three->engine_of(0x103), 0u);
  EXPECT_EQ(three->engine_of(0x105), 1u);
}

}  // namespace
}  // namespace uroce::glue
