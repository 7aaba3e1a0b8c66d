// Frames that stay in the process: without buffer in one thread, without ICRC between two, and whole for all who look.
#include <gtest/gtest.h>

#include "nodes.h"
#include "pmd_glue/missing_icrc.h"
#include "wire/flow_key.h"

namespace uroce::glue {
namespace {

transport::FlowEntry sniffer(uint32_t qpn) {
  return {.id = qpn,
          .qpn = qpn,
          .type = FlowType::sniffer,
          .pattern = wire::make_pattern({.type = FlowType::sniffer}).value()};
}

void send_back(PortQueue& queue, uint32_t dest_qpn) {
  TestFrame f(dest_qpn, 0, {});
  f.frame.loopback = true;
  ASSERT_GT(queue.sink().room(), 0u);
  queue.sink().send({&f.frame, 1});
}

TEST(LocalLink, HandsFramesToTheOtherEndWhileTheyAreSent) {
  TwoNodes t(1, 1, Frames::local);
  send(*t.a.queues[0], 0x40);
  EXPECT_EQ(t.b.unknown_qps(0), 1u) << "before anybody polled";
  EXPECT_EQ(t.a.counter(0, "port_local"), 1u);
  EXPECT_EQ(t.a.counter(0, "port_sent"), 1u);
  t.round();
  EXPECT_EQ(t.b.counter(0, "port_received"), 0u);
  EXPECT_EQ(t.b.unknown_qps(0), 1u) << "and only once";
}

TEST(LocalLink, HandsAnEngineItsOwnFrames) {
  TwoNodes t(2, 2, Frames::local);
  send_back(*t.a.queues[0], 0x40);
  EXPECT_EQ(t.a.unknown_qps(0), 1u);
  EXPECT_EQ(t.a.counter(0, "port_local"), 1u);
  EXPECT_EQ(t.a.counter(0, "port_loopback"), 1u);
}

// Engines of other threads get buffers, without an ICRC that nobody would need.
TEST(LocalLink, OmitsTheIcrcTowardsOtherThreads) {
  TwoNodes t(2, 2, Frames::local);
  send(*t.a.queues[0], 0x41);
  const auto sent = receive_all(*t.pair.b);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(wire::parse(sent[0]).error(), wire::Drop::icrc);
  EXPECT_TRUE(wire::parse(sent[0], wire::Icrc::absent));
  send(*t.a.queues[0], 0x41);
  send_back(*t.b.queues[0], 0x43);
  for (int i = 0; i < 4; ++i) t.round();
  EXPECT_EQ(t.b.unknown_qps(1), 2u);
  EXPECT_EQ(t.b.counter(0, "port_steered"), 1u);
  EXPECT_EQ(t.a.counter(0, "port_local") + t.b.counter(0, "port_local"), 0u);
  EXPECT_EQ(t.b.dropped(1, wire::Drop::icrc), 0u);
}

TEST(LocalLink, SendsWholeFramesToGroups) {
  TwoNodes t(2, 2, Frames::local);
  send(*t.a.queues[0], kMulticastQpn);
  const auto sent = receive_all(*t.pair.b);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(wire::parse(sent[0])) << "every engine gets the same buffer";
}

TEST(LocalLink, ShowsWholeFramesToWhomeverLooks) {
  for (const bool at_sender : {true, false}) {
    TwoNodes t(1, 1, Frames::local);
    Node& watched = at_sender ? t.a : t.b;
    ASSERT_TRUE(watched.engines[0]->flows().add(sniffer(0x42)));
    send(*t.a.queues[0], 0x40);
    EXPECT_EQ(t.b.unknown_qps(0), 0u) << "it waits in a buffer";
    watched.engines[0]->flows().remove(0x42);
    send(*t.a.queues[0], 0x40);
    EXPECT_EQ(t.b.unknown_qps(0), 0u) << "no frame overtakes another";
    const auto sent = receive_all(*t.pair.b);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_TRUE(wire::parse(sent[0]));
    EXPECT_EQ(t.a.counter(0, "port_local"), 0u);
    send(*t.a.queues[0], 0x40);
    EXPECT_EQ(t.b.unknown_qps(0), 1u) << "the short way is free again";
  }
}

TEST(LocalLink, CompletesFramesThatWereOnTheirWayWhenSomebodyBeganToLook) {
  TwoNodes t(2, 2, Frames::local);
  const std::unique_ptr<std::byte[]> ring(new std::byte[message::kCaptureStride]());
  FrameTap tap(ring.get());
  send(*t.a.queues[0], 0x41);
  ASSERT_TRUE(t.b.queues[0]->begin_tap(tap));
  t.b.round();
  const auto& head = *reinterpret_cast<const message::CaptureRing*>(ring.get());
  ASSERT_GT(head.written.load(), 0u);
  message::CaptureRecord record{};
  const std::byte* at = ring.get() + message::kCaptureHeader;
  std::memcpy(&record, at, sizeof record);
  EXPECT_TRUE(wire::parse({at + sizeof record, record.length}));
  t.b.queues[0]->end_tap();
  t.b.round();
}

// Drivers may leave any flag in a buffer: frames from outside are checked, here and where they are handed over.
TEST(LocalLink, BelievesNoFlagOfFramesFromOutside) {
  TwoNodes t(2, 1);
  for (const uint32_t engine : {0u, 1u}) {
    TestFrame f(0x40 + engine, 0, {});
    rte_mbuf* mbuf = rte_pktmbuf_alloc(t.pair.a->pool());
    const auto bytes = static_cast<uint16_t>(f.frame.header_length + wire::kIcrcBytes);
    char* to = rte_pktmbuf_append(mbuf, bytes);
    std::memset(to, 0, bytes);
    std::memcpy(to, f.frame.header.data(), f.frame.header_length);
    mbuf->ol_flags |= missing_icrc_flag();
    ASSERT_NE(missing_icrc_flag(), 0u);
    ASSERT_EQ(rte_eth_tx_burst(t.pair.a->id(), 0, &mbuf, 1), 1);
    for (int i = 0; i < 4; ++i) t.round();
    EXPECT_EQ(t.b.dropped(engine, wire::Drop::icrc), 1u);
    EXPECT_EQ(t.b.unknown_qps(engine), 0u);
  }
}

TEST(LocalLink, LeadsNowhereWithWholeFrames) {
  TwoNodes t;
  t.a.queues[0]->join(*t.b.queues[0], *t.pair.rings().sent(0, 0));
  send(*t.a.queues[0], 0x40);
  send_back(*t.a.queues[0], 0x40);
  EXPECT_EQ(t.a.counter(0, "port_local"), 0u);
  const auto sent = receive_all(*t.pair.b);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(wire::parse(sent[0]));
}

}  // namespace
}  // namespace uroce::glue
