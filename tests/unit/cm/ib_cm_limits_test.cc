// The number of connections, timers, and calls while events are handled.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "cm/ib/mad.h"
#include "tests/unit/cm/cm_pair.h"

namespace uroce::cm {
namespace {

/// Connects the queue pairs `qpn` of both sides and returns the ids of both ends.
std::pair<uint32_t, uint32_t> connect(CmPair& pair, uint32_t qpn) {
  CmRequest request = pair.request();
  request.qpn = qpn;
  const auto a = pair.active.connect(request, pair.now);
  EXPECT_TRUE(a);
  pair.run();
  const uint32_t b = pair.passive.take_event().id;
  EXPECT_TRUE(pair.passive.accept(b, {.qpn = qpn}, pair.now));
  pair.run();
  EXPECT_EQ(pair.active.take_event().kind, CmEventKind::reply);
  EXPECT_TRUE(pair.active.ready(*a, {}, pair.now));
  pair.run();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::established);
  return {*a, b};
}

// One forged REQ ended a connection: the sender needs only the peer's address and queue pair number.
TEST(IbCmLimits, ForgedRequestsEndNoConnection) {
  CmPair pair;
  const auto [a, b] = pair.connected();
  ReqMad forged{.local_id = 1, .service_id = kService, .ca_guid = 0x11, .qpn = pair.request().qpn};
  forged.local_gid = pair.active.gid;
  forged.remote_gid = pair.passive.gid;
  forged.mtu = 3;
  for (int i = 0; i < 6000; ++i, ++forged.local_id) {
    pair.passive.on_mad(pair.active.gid, pair.passive.gid, make_mad(i, forged), pair.now);
    pair.run();
    pair.pass(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(pair.active.cm.find(a)->state, CmState::established);
  EXPECT_EQ(pair.passive.cm.find(b)->state, CmState::established);
  EXPECT_TRUE(pair.active.events.empty());
  EXPECT_TRUE(pair.passive.events.empty());
  EXPECT_EQ(pair.passive.cm.counters().stale.get(), 6000u);
  EXPECT_LE(pair.passive.cm.counters().resent.get(), 15u) << "one probe in 4.3 s";
}

TEST(IbCmLimits, APeerThatHasForgottenConnectsAnew) {
  CmPair pair;
  const uint32_t b = pair.connected().second;
  CmHost started_anew(pair.active.gid, {.ca_guid = 0x11, .seed = 3});
  const auto attempt = [&] {
    const auto id = started_anew.connect(pair.request(), pair.now);
    EXPECT_TRUE(id);
    test::exchange(started_anew, pair.passive, pair.now);
  };
  attempt();
  EXPECT_EQ(started_anew.take_event().reason, static_cast<uint16_t>(RejReason::stale_connection));
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
  pair.pass(std::chrono::seconds(3));
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::timewait_exit);
  pair.passive.destroy(b, pair.now);
  attempt();
  EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::request);
}

TEST(IbCmLimits, TenThousandConnectionsAtOnce) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  std::vector<std::pair<uint32_t, uint32_t>> open;
  for (uint32_t i = 0; i < 10'000; ++i) open.push_back(connect(pair, 0x100 + i));
  EXPECT_EQ(pair.active.cm.size(), 10'000u);
  EXPECT_EQ(pair.passive.cm.size(), 10'000u);
  for (const auto& [a, b] : open) pair.active.destroy(a, pair.now);
  pair.run();
  for (const auto& [a, b] : open) {
    EXPECT_EQ(pair.passive.take_event().id, b);
    pair.passive.destroy(b, pair.now);
  }
  pair.pass(std::chrono::seconds(3));
  pair.expect_nothing_left();
}

TEST(IbCmLimits, AHundredThousandConnectionsLeaveNothing) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  std::size_t most = 0;
  for (uint32_t i = 0; i < 100'000; ++i) {
    const auto [a, b] = connect(pair, 2 + i);
    pair.active.destroy(a, pair.now);
    pair.run();
    EXPECT_EQ(pair.passive.take_event().kind, CmEventKind::disconnected);
    pair.passive.destroy(b, pair.now);
    pair.pass(std::chrono::microseconds(200));  // 5,000 a second
    most = std::max(most, pair.active.cm.size() + pair.passive.cm.size());
  }
  EXPECT_LT(most, 23'000u) << "time-wait lasts 2.2 s at most";
  pair.pass(std::chrono::seconds(3));
  pair.expect_nothing_left();
  EXPECT_EQ(pair.active.cm.counters().req_sent.get(), 100'000u);
  EXPECT_EQ(pair.active.cm.counters().resent.get(), 0u);
  EXPECT_EQ(pair.passive.cm.counters().stale.get(), 0u);
}

TEST(IbCmLimits, IdsDoNotComeBackSoon) {
  CmHost host(Gid::from_ipv4(0x0a000001), {.seed = 7});
  std::set<uint32_t> ids;
  for (int i = 0; i < 200'000; ++i) {
    const auto id = host.connect({.path = {.dgid = Gid::from_ipv4(0x0a000002)}, .qpn = 2}, Nanos(0));
    ASSERT_TRUE(id);
    EXPECT_NE(*id, 0u);
    EXPECT_TRUE(ids.insert(*id).second);
    host.destroy(*id, Nanos(0));
    host.sent.clear();
  }
}

TEST(IbCmLimits, TimersKeepTimeAfterALongSilence) {
  CmPair pair;
  const auto [a, b] = pair.connected();
  pair.now += std::chrono::hours(24 * 365);
  ASSERT_TRUE(pair.active.disconnect(a, {}, pair.now));
  pair.active.sent.clear();
  const Nanos interval(int64_t{4096} * ((1 << 20) + (1 << 18)));
  EXPECT_LE(pair.active.cm.next_deadline(), pair.now + interval + Nanos(4096));
  pair.active.poll(pair.now + interval - Nanos(4096));
  EXPECT_TRUE(pair.active.sent.empty());
  pair.active.poll(pair.now + interval + Nanos(4096));
  EXPECT_EQ(pair.active.sent.size(), 1u);
}

/// A timer fires once in a poll, even if the poll is late.
TEST(IbCmLimits, ALatePollRepeatsOnce) {
  for (int64_t late = 0; late < 600; ++late) {
    CmPair pair;
    CmRequest request = pair.request();
    request.remote_cm_timeout = 0;
    request.path.ack_timeout = 1;
    ASSERT_TRUE(pair.active.connect(request, pair.now));
    pair.active.sent.clear();
    pair.active.poll(pair.now + Nanos(4096 * (4 + late)));
    EXPECT_EQ(pair.active.sent.size(), 1u) << late << " ticks late";
  }
}

/// A host whose application answers inside the event.
class Eager : public test::CmDriver<Eager> {
 public:
  explicit Eager(uint64_t seed) : CmDriver({.seed = seed}) {}
  void send(const CmPath& path, const Mad& mad) { sent.push_back({path, mad}); }
  void on_event(const CmMessage& message) {
    kinds.push_back(message.kind);
    if (answer) answer(message);
  }
  std::deque<test::SentMad> sent;
  std::vector<CmEventKind> kinds;
  std::function<void(const CmMessage&)> answer;
};

void exchange(Eager& a, Eager& b) {
  while (!a.sent.empty() || !b.sent.empty()) {
    for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      while (!from->sent.empty()) {
        const test::SentMad next = from->sent.front();
        from->sent.pop_front();
        to->on_mad(next.path.sgid, next.path.dgid, next.mad, Nanos(0));
      }
    }
  }
}

TEST(IbCmEvents, AnswersInsideAnEvent) {
  Eager a(1), b(2);
  a.answer = [&](const CmMessage& m) {
    if (m.kind == CmEventKind::reply) {
      EXPECT_TRUE(a.ready(m.id, {}, Nanos(0)));
      EXPECT_TRUE(a.disconnect(m.id, {}, Nanos(0)));
    }
    if (m.kind == CmEventKind::disconnected) a.destroy(m.id, Nanos(0));
  };
  b.answer = [&](const CmMessage& m) {
    if (m.kind == CmEventKind::request) {
      EXPECT_TRUE(b.accept(m.id, {.qpn = 3}, Nanos(0)));
    }
    if (m.kind == CmEventKind::disconnected) b.destroy(m.id, Nanos(0));
  };
  ASSERT_TRUE(b.cm.listen(kService, 1, 1));
  const CmPath path{.sgid = Gid::from_ipv4(1), .dgid = Gid::from_ipv4(2)};
  ASSERT_TRUE(a.connect({.service_id = kService, .path = path, .qpn = 2}, Nanos(0)));
  exchange(a, b);
  EXPECT_EQ(a.kinds, (std::vector{CmEventKind::reply, CmEventKind::disconnected}));
  EXPECT_EQ(b.kinds, (std::vector{CmEventKind::request, CmEventKind::established, CmEventKind::disconnected}));
}

/// Destroys the id inside each kind of event: no more events of it come, and no record remains.
TEST(IbCmEvents, DestroysInsideAnEvent) {
  for (const CmEventKind last : {CmEventKind::request, CmEventKind::reply, CmEventKind::established,
                                 CmEventKind::disconnected, CmEventKind::timewait_exit, CmEventKind::unreachable}) {
    Eager a(1), b(2);
    const auto answer = [&](Eager& host, const CmMessage& m) {
      if (m.kind == last) return host.destroy(m.id, Nanos(0));
      if (m.kind == CmEventKind::request) static_cast<void>(host.accept(m.id, {.qpn = 3}, Nanos(0)));
      if (m.kind == CmEventKind::reply) static_cast<void>(host.ready(m.id, {}, Nanos(0)));
      if (m.kind == CmEventKind::established) static_cast<void>(host.disconnect(m.id, {}, Nanos(0)));
    };
    a.answer = [&](const CmMessage& m) { answer(a, m); };
    b.answer = [&](const CmMessage& m) { answer(b, m); };
    ASSERT_TRUE(b.cm.listen(kService, 1, 1));
    const CmPath path{.sgid = Gid::from_ipv4(1), .dgid = Gid::from_ipv4(2)};
    const auto id = a.connect({.service_id = kService, .path = path, .qpn = 2}, Nanos(0));
    if (last != CmEventKind::unreachable) exchange(a, b);
    Nanos now{0};
    while (std::min(a.cm.next_deadline(), b.cm.next_deadline()) != kNever) {
      now = std::min(a.cm.next_deadline(), b.cm.next_deadline());
      a.poll(now);
      b.poll(now);
    }
    a.destroy(*id, now);
    EXPECT_LE(a.cm.size() + b.cm.size(), 1u) << "after " << static_cast<int>(last);
    for (const Eager* host : {&a, &b}) {
      const auto end = std::find(host->kinds.begin(), host->kinds.end(), last);
      if (end != host->kinds.end()) {
        EXPECT_EQ(end + 1, host->kinds.end()) << "after " << static_cast<int>(last);
      }
    }
  }
}

/// A peer that names connections which do not exist is known by its address.
TEST(IbCm, GuessedIdsAreCountedByPeer) {
  CmPair pair;
  pair.connected();
  const Gid stranger = Gid::from_ipv4(0x0a000063);
  for (uint32_t id = 1; id <= 5; ++id) {
    const Mad rtu = make_mad(1, RtuMad{.local_id = 7, .remote_id = id, .private_data = {}});
    pair.passive.on_mad(stranger, pair.passive.gid, rtu, pair.now);
  }
  const auto rows = pair.passive.cm.guesses(pair.now + Nanos(300));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].peer, stranger);
  EXPECT_EQ(rows[0].counts[static_cast<std::size_t>(Guess::cm_id)], 5u);
  EXPECT_EQ(rows[0].ago, Nanos(300));
}

TEST(IbCm, AnAlternatePathIsDeclined) {
  CmPair pair;
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  ASSERT_TRUE(pair.active.connect(pair.request(), pair.now));
  test::SentMad req = pair.active.sent.front();
  store8(req.mad.data() + kMadHeaderBytes + 100, 0xfe);
  pair.passive.on_mad(req.path.sgid, req.path.dgid, req.mad, pair.now);
  ASSERT_TRUE(pair.passive.accept(pair.passive.take_event().id, pair.reply(), pair.now));
  EXPECT_EQ(RepMad::load(pair.passive.sent.front().mad.data() + kMadHeaderBytes).failover, 1);
}

/// All messages of a connection have one transaction id, except DREQ and DREP.
TEST(IbCm, TransactionIdsAreEchoed) {
  CmPair pair;
  std::vector<uint64_t> ids;
  const auto carry = [&](CmHost& from, CmHost& to) {
    const test::SentMad next = from.sent.front();
    from.sent.pop_front();
    ids.push_back(parse_header(next.mad)->transaction_id);
    to.on_mad(next.path.sgid, next.path.dgid, next.mad, pair.now);
  };
  ASSERT_TRUE(pair.passive.cm.listen(kService, 10, 1));
  const auto a = pair.active.connect(pair.request(), pair.now);
  carry(pair.active, pair.passive);
  ASSERT_TRUE(pair.passive.accept(pair.passive.take_event().id, pair.reply(), pair.now));
  carry(pair.passive, pair.active);
  ASSERT_TRUE(pair.active.ready(*a, {}, pair.now));
  carry(pair.active, pair.passive);
  ASSERT_TRUE(pair.active.disconnect(*a, {}, pair.now));
  carry(pair.active, pair.passive);
  carry(pair.passive, pair.active);
  ASSERT_EQ(ids.size(), 5u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_NE(ids[0], ids[3]);
  EXPECT_EQ(ids[3], ids[4]);
}

}  // namespace
}  // namespace uroce::cm
