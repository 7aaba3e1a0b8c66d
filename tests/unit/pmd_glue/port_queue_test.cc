#include "pmd_glue/port_queue.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "nodes.h"
#include "pmd_glue/worker.h"
#include "wire/flow_key.h"

namespace uroce::glue {
namespace {

TEST(PortQueue, ResolvesAndAnswersOverThePort) {
  TwoNodes t;
  for (const char* peer : {"192.0.2.2", "2001:db8::2"}) {
    const Gid gid = net::parse_address(peer).value();
    const auto mac = t.a.neighbourhood->resolve(gid, 1000, std::chrono::seconds(5), [&] { t.round(); });
    ASSERT_TRUE(mac) << mac.error().text;
    EXPECT_EQ(*mac, t.pair.b->mac());
  }
  const auto own = t.a.neighbourhood->resolve(net::parse_address("192.0.2.1").value(), 1000, Nanos(0), [] {});
  ASSERT_TRUE(own);
  EXPECT_EQ(*own, t.pair.a->mac());
  EXPECT_GE(t.b.counter(0, "port_slow"), 2u);  // and membership reports, when they are due
}

TEST(PortQueue, SaysWhoDoesNotAnswer) {
  TwoNodes t;
  const auto mac = t.a.neighbourhood->resolve(net::parse_address("192.0.2.9").value(), 1000,
                                              std::chrono::milliseconds(20), [&] { t.round(); });
  ASSERT_FALSE(mac);
  EXPECT_EQ(mac.error().code, EHOSTUNREACH);
  EXPECT_NE(mac.error().text.find("192.0.2.9"), std::string::npos);
  EXPECT_NE(mac.error().text.find("uroce0"), std::string::npos);
  const auto far = t.a.neighbourhood->resolve(net::parse_address("198.51.100.1").value(), 1000, Nanos(0), [] {});
  EXPECT_EQ(far.error().code, ENETUNREACH);
}

TEST(PortQueue, ResolvesInTurnForAUser) {
  TwoNodes t;
  const auto resolve = [&](const std::string& peer, uint32_t user, Nanos timeout) {
    return t.a.neighbourhood->resolve(net::parse_address(peer).value(), user, timeout, [&] { t.round(); });
  };
  for (std::size_t i = 0; i < net::kMaxPendingOfUser; ++i) {
    EXPECT_FALSE(resolve(fmt::format("2001:db8::1:{:x}", i), 1000, Nanos(0)));
  }
  const auto mac = resolve("2001:db8::2", 1000, std::chrono::milliseconds(20));
  ASSERT_FALSE(mac);
  EXPECT_EQ(mac.error().code, EHOSTUNREACH);
  for (const char* word : {"2001:db8::2", "256 addresses", "user 1000", "wait"}) {
    EXPECT_NE(mac.error().text.find(word), std::string::npos) << mac.error().text;
  }
  EXPECT_TRUE(resolve("192.0.2.2", 1001, std::chrono::seconds(5))) << "another user does not wait";
  EXPECT_TRUE(resolve("2001:db8::2", 1000, std::chrono::seconds(10))) << "the silent ones fail after 3 s";
}

TEST(PortQueue, HandsFramesToTheEngineOfTheirQpn) {
  for (const uint32_t queues : {1u, 4u}) {
    TwoNodes t(4, queues);
    EXPECT_EQ(t.pair.b->queues(), queues);
    // Engine i of a sends to every engine of b, from every queue.
    for (uint32_t from = 0; from < 4; ++from) {
      for (uint32_t to = 0; to < 4; ++to) send(*t.a.queues[from], 0x40 + to);
    }
    for (int i = 0; i < 4; ++i) t.round();
    uint64_t steered = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(t.b.unknown_qps(i), 4u) << "engine " << i << " with " << queues << " queues";
      steered += t.b.counter(i, "port_steered");
    }
    EXPECT_EQ(steered, 12u);
  }
}

TEST(PortQueue, HandsAMulticastFrameToEveryEngine) {
  TwoNodes t(4, 1);
  const auto received = [&](uint32_t engine) { return t.b.engines[engine]->traffic().sum().rx_packets; };
  for (int i = 0; i < 4; ++i) t.round();
  const auto in_use = [&] {
    return rte_mempool_in_use_count(t.pair.a->pool()) + rte_mempool_in_use_count(t.pair.b->pool());
  };
  send(*t.a.queues[0], 0x40);
  for (int i = 0; i < 4; ++i) t.round();
  const unsigned settled = in_use();
  for (int i = 0; i < 100; ++i) {
    send(*t.a.queues[0], kMulticastQpn);
    t.round();
  }
  for (int i = 0; i < 4; ++i) t.round();
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(received(i), i == 0 ? 101u : 100u) << "engine " << i;
  EXPECT_EQ(t.b.unknown_qps(0), 101u) << "nobody listens, and one engine says so";
  EXPECT_EQ(t.b.unknown_qps(1), 0u);
  EXPECT_EQ(in_use(), settled) << "every reference is given back";
}

TEST(PortQueue, APausedEngineLosesNoFrame) {
  TwoNodes t(2, 1);
  for (int i = 0; i < 4; ++i) t.round();
  auto& engine = *t.b.engines[1];
  engine.pause();
  for (int i = 0; i < 40; ++i) send(*t.a.queues[0], 0x41);
  for (int i = 0; i < 4; ++i) t.round();
  EXPECT_EQ(t.b.unknown_qps(1), 0u);
  t.b.engines[0]->pause();
  EXPECT_TRUE(t.b.queues[1]->receive_rest(t.clock.now()));
  EXPECT_FALSE(t.b.queues[1]->receive_rest(t.clock.now()));
  EXPECT_EQ(t.b.unknown_qps(1), 40u) << "engine 0 had handed them over";
  EXPECT_TRUE(engine.is_paused());
  send(*t.a.queues[0], 0x41);
  EXPECT_FALSE(t.b.queues[0]->receive_rest(t.clock.now())) << "it waits in the port, for the successor";
}

TEST(PortQueue, TakesNoFrameOnceItsEngineIsPaused) {
  TwoNodes t;
  PortQueue queue({.port = *t.pair.b,
                   .handover = *t.b.handovers.handover,
                   .neighbourhood = *t.b.neighbourhood,
                   .engine = *t.b.engines[0],
                   .answers_first = true});
  transport::Engine& engine = *t.b.engines[0];
  for (uint64_t frames = 1; frames <= 100; ++frames) {
    ASSERT_TRUE(engine.submit(std::make_shared<transport::Task>([](transport::Engine& e) { e.pause(); })));
    send(*t.a.queues[0], 0x40);
    queue.round(t.clock);
    ASSERT_TRUE(engine.is_paused());
    engine.resume();
    // The second of two rounds in a row runs the engine first.
    while (queue.round(t.clock)) {
    }
    ASSERT_EQ(t.b.unknown_qps(0), frames);
  }
}

TEST(PortQueue, CountsWhatItDoesNotKnow) {
  TwoNodes t;
  std::vector<std::byte> frame(60);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xcc};  // LLDP
  ASSERT_TRUE(t.a.queues[0]->sink().send_raw(frame));
  ASSERT_TRUE(t.a.queues[0]->sink().send_raw(std::span(frame).first(1)));
  t.round();
  EXPECT_EQ(t.b.counter(0, "port_foreign"), 2u);
  EXPECT_EQ(t.b.counter(0, "port_received"), 2u);
}

transport::FlowEntry rule_for(uint32_t qpn, FlowType type) {
  return {.id = qpn, .qpn = qpn, .type = type, .pattern = wire::make_pattern({.type = type}).value()};
}

TEST(PortQueue, GivesForeignFramesToTheEngineOfTheirRule) {
  TwoNodes t(4, 1);
  const auto in_use = [&] {
    return rte_mempool_in_use_count(t.pair.a->pool()) + rte_mempool_in_use_count(t.pair.b->pool());
  };
  std::vector<std::byte> frame(60);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xcc};  // LLDP
  const auto send_all = [&] {
    ASSERT_TRUE(t.a.queues[0]->sink().send_raw(frame));
    send(*t.a.queues[0], 0x42);
    for (int i = 0; i < 4; ++i) t.round();
  };
  send_all();
  const unsigned settled = in_use();
  EXPECT_EQ(t.b.counter(0, "port_foreign"), 1u);
  EXPECT_EQ(t.b.counter(0, "port_steered"), 1u) << "RoCE";
  for (auto& engine : t.b.engines) ASSERT_TRUE(engine->flows().add(rule_for(0x43, FlowType::all_default)));
  send_all();
  EXPECT_EQ(t.b.counter(0, "port_foreign"), 1u) << "the rule takes it";
  EXPECT_EQ(t.b.counter(0, "port_steered"), 3u);
  for (auto& engine : t.b.engines) ASSERT_TRUE(engine->flows().add(rule_for(0x41, FlowType::sniffer)));
  send_all();
  EXPECT_EQ(t.b.counter(0, "port_steered"), 7u) << "the sniffer's copies of both besides";
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(t.b.engines[i]->traffic().sum().rx_packets, i == 2 ? 3u : 0u)
        << "engine " << i << " takes no copy for a packet of its own";
  }
  EXPECT_EQ(in_use(), settled) << "every reference is given back";
}

TEST(PortQueue, CopiesWhatItSendsForSniffersOfAnyEngine) {
  TwoNodes t(4, 1);
  const std::vector<std::byte> frame(60);
  ASSERT_TRUE(t.a.queues[0]->sink().send_raw(frame));
  EXPECT_TRUE(t.a.handovers.handover->empty(3));
  for (auto& engine : t.a.engines) ASSERT_TRUE(engine->flows().add(rule_for(0x43, FlowType::sniffer)));
  ASSERT_TRUE(t.a.queues[0]->sink().send_raw(frame));
  send(*t.a.queues[0], 0x42);
  for (const uint32_t engine : {0u, 1u, 2u}) EXPECT_TRUE(t.a.handovers.handover->empty(engine));
  EXPECT_FALSE(t.a.handovers.handover->empty(3));
  for (int i = 0; i < 4; ++i) t.round();
  EXPECT_TRUE(t.a.handovers.handover->empty(3));
  EXPECT_EQ(t.a.engines[3]->traffic().sum().rx_packets, 0u) << "a copy is not a packet of its own";
}

TEST(PortQueue, JoinsSegmentsAndDropsWhatIsTooLong) {
  TwoNodes t;
  rte_mempool* pool = rte_pktmbuf_pool_create("segments", 255, 0, 0, RTE_PKTMBUF_HEADROOM + 64, SOCKET_ID_ANY);
  TestFrame f(0x40, 0, {});
  t.a.queues[0]->sink().room();
  t.a.queues[0]->sink().send({&f.frame, 1});
  const auto whole = receive_all(*t.pair.b)[0];
  for (const std::size_t surplus : {std::size_t{0}, std::size_t{9000}}) {
    std::vector<std::byte> bytes(whole.size() + surplus);
    std::ranges::copy(whole, bytes.begin());
    rte_mbuf* head = nullptr;
    for (std::size_t at = 0; at < bytes.size(); at += 40) {
      rte_mbuf* part = rte_pktmbuf_alloc(pool);
      const auto n = static_cast<uint16_t>(std::min<std::size_t>(40, bytes.size() - at));
      std::memcpy(rte_pktmbuf_append(part, n), &bytes[at], n);
      if (head == nullptr) {
        head = part;
      } else {
        ASSERT_EQ(rte_pktmbuf_chain(head, part), 0);
      }
    }
    ASSERT_EQ(rte_eth_tx_burst(t.pair.a->id(), 0, &head, 1), 1);
  }
  t.round();
  EXPECT_EQ(t.b.unknown_qps(0), 1u) << "the joined one parses, its ICRC right";
  EXPECT_EQ(t.b.counter(0, "port_oversize"), 1u);
  EXPECT_EQ(rte_mempool_avail_count(pool), 255u) << "all segments are back";
  rte_mempool_free(pool);
}

TEST(PortQueue, GivesEveryBufferBack) {
  TwoNodes t(2, 1);
  const auto in_use = [&] {
    return rte_mempool_in_use_count(t.pair.a->pool()) + rte_mempool_in_use_count(t.pair.b->pool());
  };
  send(*t.a.queues[0], 0x40);
  send(*t.a.queues[1], 0x41);
  for (int i = 0; i < 4; ++i) t.round();
  const unsigned settled = in_use();  // each sink's stash
  for (uint32_t i = 0; i < 5000; ++i) {
    send(*t.a.queues[i & 1], i);
    if (i % 16 == 0) t.round();
  }
  for (int i = 0; i < 20; ++i) t.round();
  EXPECT_EQ(in_use(), settled);
  EXPECT_EQ(t.b.unknown_qps(0) + t.b.unknown_qps(1), 5002u);
}

TEST(Worker, SleepsUntilAFrameOrAWakeUp) {
  TwoNodes t;
  Worker worker(IdlePolicy::sleep, t.clock);
  worker.add(std::move(t.b.queues[0]));
  t.b.queues.clear();
  // Idle long enough to sleep; each nap is bounded.
  const Nanos start = t.clock.now();
  while (t.clock.now() - start < std::chrono::milliseconds(5)) {
    if (!worker.round()) worker.idle(std::chrono::milliseconds(1));
  }
  send(*t.a.queues[0], 0x40);
  while (!worker.round() && t.clock.now() - start < std::chrono::seconds(5)) worker.idle(std::chrono::milliseconds(1));
  EXPECT_EQ(t.b.unknown_qps(0), 1u);
}

TEST(Worker, IsBusyFromARoundWithWorkToTheNext) {
  TwoNodes t;
  Worker worker(IdlePolicy::busy, t.clock);
  worker.add(std::move(t.b.queues[0]));
  t.b.queues.clear();
  const Nanos start = t.clock.now();
  while (t.clock.now() - start < std::chrono::milliseconds(2)) worker.round();
  EXPECT_GT(worker.load().rounds.get(), 0u);
  EXPECT_EQ(worker.load().busy_ns.get(), 0u);
  const Nanos before = t.clock.now();
  send(*t.a.queues[0], 0x40);
  while (!worker.round() && t.clock.now() - start < std::chrono::seconds(5)) {
  }
  worker.round();
  const auto busy = static_cast<int64_t>(worker.load().busy_ns.get());
  EXPECT_GT(busy, 0);
  EXPECT_LE(busy, (t.clock.now() - before).count());
  EXPECT_EQ(worker.load().waiting_qps.load(), 0u);
}

}  // namespace
}  // namespace uroce::glue
