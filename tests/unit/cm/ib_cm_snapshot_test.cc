// Connections that another IbCm goes on with, in each of their states.
#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "tests/unit/cm/cm_pair.h"

namespace uroce::cm {
namespace {

using namespace std::chrono_literals;

/// A host takes the place of another one, with its address.
struct Heir {
  explicit Heir(const CmHost& host) : next(host.gid, {.ca_guid = 0, .seed = 99}) {}

  void take_over(const CmHost& host, Nanos now) {
    next.cm.adopt(host.cm.comm_ids());
    for (const ConnectionSnapshot& one : host.cm.snapshot(now)) EXPECT_TRUE(next.cm.adopt(one, now));
    EXPECT_EQ(next.cm.size(), host.cm.size());
  }
  CmHost next;
};

class SnapshotTest : public testing::Test, protected CmPair {
 protected:
  /// The side's connection manager is another one from now on.
  void replace(CmHost*& side) {
    Heir& heir = heirs_.emplace_back(*side);
    heir.take_over(*side, now);
    side = &heir.next;
  }
  void replace_both() {
    replace(active_);
    replace(passive_);
  }
  void run_replaced() { test::exchange(*active_, *passive_, now); }
  void pass_replaced(Nanos time) {
    const Nanos end = now + time;
    for (Nanos next{0}; (next = std::min(active_->cm.next_deadline(), passive_->cm.next_deadline())) <= end;) {
      now = std::max(now, next);
      active_->poll(now);
      passive_->poll(now);
      run_replaced();
    }
    now = end;
  }

  CmHost* active_ = &active;
  CmHost* passive_ = &passive;

 private:
  std::deque<Heir> heirs_;
};

TEST_F(SnapshotTest, AnEstablishedConnectionEndsAsUsual) {
  const uint32_t a = connected().first;
  replace_both();
  EXPECT_EQ(active_->cm.find(a)->state, CmState::established);
  EXPECT_TRUE(active_->disconnect(a, {}, now));
  run_replaced();
  EXPECT_EQ(passive_->take_event().kind, CmEventKind::disconnected);
  EXPECT_EQ(active_->take_event().kind, CmEventKind::disconnected);
  pass_replaced(10s);
  EXPECT_EQ(passive_->take_event().kind, CmEventKind::timewait_exit);
  EXPECT_EQ(active_->take_event().kind, CmEventKind::timewait_exit);
}

TEST_F(SnapshotTest, ARequestIsRepeatedWhenItIsDue) {
  const auto a = active.connect(request(), now);
  ASSERT_TRUE(a);
  active.sent.clear();  // lost
  pass(2s);
  const Nanos due = active.cm.next_deadline();
  replace_both();
  static_cast<void>(passive_->cm.listen(kService, 10, 1));
  EXPECT_EQ(active_->cm.next_deadline(), due);
  pass_replaced(6s);
  EXPECT_EQ(passive_->take_event().kind, CmEventKind::request);
}

TEST_F(SnapshotTest, ARequestIsAnsweredAfterwards) {
  const uint32_t b = requested().second;
  passive.cm.delivered(b);
  replace_both();
  EXPECT_TRUE(passive_->accept(b, reply(), now));
  run_replaced();
  EXPECT_EQ(active_->take_event().kind, CmEventKind::reply);
  replace(active_);  // the REP goes over, too
}

TEST_F(SnapshotTest, AReplyIsRepeatedUntilTheRtuComes) {
  const auto [a, b] = requested();
  EXPECT_TRUE(passive.accept(b, reply(), now));
  passive.sent.clear();  // lost
  replace_both();
  pass_replaced(20s);
  ASSERT_EQ(active_->take_event().kind, CmEventKind::reply);
  EXPECT_TRUE(active_->ready(a, {}, now));
  run_replaced();
  EXPECT_EQ(passive_->take_event().kind, CmEventKind::established);
}

TEST_F(SnapshotTest, TheRestOfTimeWaitPasses) {
  const uint32_t a = connected().first;
  EXPECT_TRUE(active.disconnect(a, {}, now));
  run();
  EXPECT_EQ(active.cm.find(a)->state, CmState::timewait);
  active.destroy(a, now);
  now += 10ms;
  const Nanos left = active.cm.snapshot(now).at(0).timer.value();
  now += left / 2;
  replace_both();
  EXPECT_EQ(active_->cm.size(), 1u) << "without an owner";
  pass_replaced(left / 2 - 1ms);
  EXPECT_EQ(active_->cm.size(), 1u);
  pass_replaced(2ms);
  EXPECT_EQ(active_->cm.size(), 0u);
}

TEST_F(SnapshotTest, ADreqIsRepeated) {
  const uint32_t b = connected().second;
  EXPECT_TRUE(passive.disconnect(b, {}, now));
  passive.sent.clear();  // lost
  replace_both();
  EXPECT_EQ(passive_->cm.find(b)->state, CmState::dreq_sent);
  pass_replaced(20s);
  EXPECT_EQ(active_->take_event().kind, CmEventKind::disconnected);
}

TEST_F(SnapshotTest, AKeptAnswerIsGivenAgain) {
  const uint32_t b = requested().second;
  EXPECT_TRUE(passive.reject(b, RejReason::consumer_reject, {}, bytes_of("no"), now));
  passive.destroy(b, now);
  passive.sent.clear();  // lost
  replace_both();
  pass_replaced(20s);
  const CmMessage event = active_->take_event();
  EXPECT_EQ(event.kind, CmEventKind::rejected);
  EXPECT_EQ(text_of(event.private_data), "no");
}

TEST_F(SnapshotTest, DatagramsFindTheirService) {
  static_cast<void>(passive.cm.listen(kService, 10, 1));
  CmRequest asked = request();
  asked.type = QpType::ud;
  ASSERT_TRUE(active.connect(asked, now));
  active.sent.clear();  // lost
  replace_both();
  static_cast<void>(passive_->cm.listen(kService, 10, 1));
  pass_replaced(20s);
  const CmMessage event = passive_->take_event();
  ASSERT_EQ(event.kind, CmEventKind::request);
  replace(passive_);
}

TEST_F(SnapshotTest, NoIdIsGivenTwice) {
  std::set<uint32_t> given;
  for (int restart = 0; restart < 3; ++restart) {
    for (int i = 0; i < 100; ++i) {
      const auto id = active_->connect(request(), now);
      ASSERT_TRUE(id);
      EXPECT_TRUE(given.insert(*id).second);
      active_->destroy(*id, now);
    }
    active_->sent.clear();
    Heir heir(*active_);
    EXPECT_EQ(heir.next.cm.comm_ids().given, 0u);
    replace(active_);
  }
}

TEST_F(SnapshotTest, ConnectionsThatMakeNoSenseAreRefused) {
  (void)connected();
  const ConnectionSnapshot good = active.cm.snapshot(now).at(0);
  const auto refused = [&](const std::function<void(ConnectionSnapshot&)>& change) {
    Heir heir(active);
    ConnectionSnapshot bad = good;
    change(bad);
    const auto adopted = heir.next.cm.adopt(bad, now);
    EXPECT_EQ(heir.next.cm.size(), 0u);
    return !adopted && adopted.error().code == EPROTO;
  };
  using One = ConnectionSnapshot;
  EXPECT_TRUE(refused([](One& one) { one.c.id = 0; }));
  EXPECT_TRUE(refused([](One& one) { one.c.state = static_cast<CmState>(17); }));
  EXPECT_TRUE(refused([](One& one) { one.c.last.reset(); }));
  EXPECT_TRUE(refused([](One& one) { one.c.state = CmState::dreq_sent; })) << "it has no timer";
  EXPECT_TRUE(refused([](One& one) { one.c.state = CmState::timewait; })) << "it would never end";
  EXPECT_TRUE(refused([](One& one) { one.c.request.local_cm_timeout = 99; }));
  EXPECT_TRUE(refused([](One& one) { one.c.request.path.mtu = static_cast<Mtu>(9); }));
  EXPECT_TRUE(refused([](One& one) { one.c.request.type = QpType::ud; }));
  EXPECT_TRUE(refused([](One& one) { one.c.request.private_data.resize(2000); }));
  EXPECT_TRUE(refused([](One& one) { one.timer = std::chrono::hours(9); }));
  EXPECT_TRUE(refused([](One& one) { one.c.interval = Nanos(-1); }));
  EXPECT_TRUE(refused([](One& one) { one.c.remote_qpn = 1u << 24; }));

  Heir heir(active);
  ASSERT_TRUE(heir.next.cm.adopt(good, now));
  EXPECT_FALSE(heir.next.cm.adopt(good, now)) << "the same again";
  ConnectionSnapshot other = good;
  other.c.id ^= 1;
  EXPECT_FALSE(heir.next.cm.adopt(other, now)) << "another one has the peer's numbers";
  EXPECT_EQ(heir.next.cm.size(), 1u);
}

TEST_F(SnapshotTest, RequestsWaitInTheirOrder) {
  static_cast<void>(passive.cm.listen(kService, 10, 1));
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 3; ++i) {
    CmRequest one = request();
    one.qpn = 0x30 + i;
    ASSERT_TRUE(active.connect(one, now));
    run();
    ids.push_back(passive.take_event().id);
  }
  replace(passive_);
  const auto backlog = std::make_shared<Backlog>(3);
  for (const uint32_t id : ids) EXPECT_TRUE(passive_->cm.wait(id, backlog));
  EXPECT_TRUE(backlog->full());
  EXPECT_FALSE(passive_->cm.wait(ids[0], std::make_shared<Backlog>(3))) << "it waits already";
  passive_->cm.delivered(ids[1]);
  EXPECT_FALSE(backlog->full());
}

}  // namespace
}  // namespace uroce::cm
