// A queue pair's state as bytes: it comes back as it was written, and damaged bytes do no harm.
#include "transport/qp/snapshot.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "base/random.h"
#include "tests/support/test_endpoint.h"
#include "tests/unit/transport/bare_qp.h"
#include "transport/congestion/dcqcn.h"

namespace uroce::transport {
namespace {

using test::ConnectOptions;
using test::EndpointOptions;
using test::kAllAccess;
using test::TestEndpoint;
using test::TestQp;

using Bytes = std::vector<std::byte>;

/// Two hosts and the frames between them, which a test lets through as it likes.
class Hosts {
 public:
  struct Options {
    Retransmission retransmission = Retransmission::go_back_n;
    CongestionAlgorithm congestion = CongestionAlgorithm::none;
    QpType type = QpType::rc;
    bool srq = false;
    uint32_t parking_frames = 64;
    Mtu port_mtu = Mtu::mtu4096;
    uint32_t window = 32;
  };
  explicit Hosts(const Options& options) : left_(host(options, 1)), right_(host(options, 2)), type_(options.type) {
    TestQp::Options qp{.qpn = 0x11, .type = options.type};
    qp.cap.max_send_wr = qp.cap.max_recv_wr = 16;
    if (options.srq) qp.srq = &left_.make_srq(16);
    left_qp_ = &left_.make_qp(qp);
    qp.qpn = 0x22;
    if (options.srq) qp.srq = &right_.make_srq(16);
    right_qp_ = &right_.make_qp(qp);
    near_ = &left_.make_region(1 << 16, kAllAccess);
    far_ = &right_.make_region(1 << 16, kAllAccess);
    if (options.type == QpType::ud) ah_ = left_.make_ah(left_.route_to(right_));
  }

  void connect() {
    ConnectOptions options{.dest_qpn = 0x22, .sq_psn = 0xfffffa, .rq_psn = 7, .mtu = Mtu::mtu256};
    left_qp_->connect(options, left_.route_to(right_));
    options.dest_qpn = 0x11;
    std::swap(options.sq_psn, options.rq_psn);
    right_qp_->connect(options, right_.route_to(left_));
    settle();
  }
  void post(WrOpcode opcode, uint32_t length, bool inline_data = false) {
    const Sge sges[] = {near_->sge(0, length / 2), near_->sge(4096, length - length / 2)};
    SendRequest request{.wr_id = next_wr_++, .opcode = opcode, .flags = SendFlag::signaled, .sges = sges};
    if (inline_data) {
      request.flags |= SendFlag::inline_data;
      request.inline_data = near_->bytes().first(length);
    }
    request.remote_addr = far_->va();
    request.rkey = far_->key();
    request.ah = ah_;
    request.remote_qpn = remote_qpn_;
    request.remote_qkey = 0x1234;
    ASSERT_TRUE(left_qp_->post_send(request));
  }
  void post_recv() {
    const Sge sges[] = {far_->sge(8192, 100), far_->sge(16384, 4000)};
    ASSERT_TRUE(right_qp_->post_recv({.wr_id = 1, .sges = sges}));
  }
  /// Lets both engines run and gives each what the other sent, but for the frames that `lose` names, once.
  void step(const std::function<bool(std::size_t)>& lose = nullptr) {
    now_ += Nanos(10'000);
    left_.run(now_);
    right_.run(now_);
    const auto rightward = left_.sink().take();
    const auto leftward = right_.sink().take();
    for (std::size_t i = 0; i < rightward.size(); ++i) {
      if (lose == nullptr || !lose(i)) right_.inject(rightward[i].bytes, now_);
    }
    for (std::size_t i = 0; i < leftward.size(); ++i) {
      if (lose == nullptr || !lose(i)) left_.inject(leftward[i].bytes, now_);
    }
  }
  void settle() {
    for (int i = 0; i < 20; ++i) step();
  }

  TestEndpoint left_;
  TestEndpoint right_;
  TestQp* left_qp_ = nullptr;
  TestQp* right_qp_ = nullptr;
  test::TestRegion* near_ = nullptr;
  test::TestRegion* far_ = nullptr;
  Nanos now_{1'000'000};
  uint64_t next_wr_ = 1;
  QpType type_;
  uint32_t ah_ = 0;
  uint32_t remote_qpn_ = 0x22;

 private:
  static EndpointOptions host(const Options& options, uint32_t number) {
    EndpointOptions host;
    host.engine.max_qps = 64;
    host.engine.window_packets = options.window;
    host.engine.settings.retransmission = options.retransmission;
    host.engine.settings.congestion.algorithm = options.congestion;
    host.engine.settings.parking_frames = options.parking_frames;
    host.engine.port_mtu = options.port_mtu;
    host.gid = Gid::from_ipv4(0x0a000000 + number);
    host.mac.bytes[5] = static_cast<uint8_t>(number);
    return host;
  }
};

/// A state that queue pairs come into, and how.
struct Case {
  const char* name;
  Hosts::Options options;
  void (*prepare)(Hosts&);
};

void post_mixture(Hosts& hosts) {
  hosts.connect();
  hosts.post_recv();
  hosts.post(WrOpcode::send, 1000);
  hosts.post(WrOpcode::rdma_read, 2000);
  hosts.post(WrOpcode::fetch_add, 8);
  hosts.post(WrOpcode::rdma_write, 100, true);
  hosts.post(WrOpcode::rdma_read, 600);
}

// Rounds of congestion leave this behind.
void set_path(Hosts& hosts) {
  Qp& qp = hosts.left_qp_->qp();
  qp.tx.recovery->port = {.peers = 0xc123, .wish = 0xd000, .peer_wish = 0xe000, .left_at = hosts.now_ - Nanos(100)};
  qp.cold->congestion->congested_rounds().on_report(hosts.now_ - Nanos(7), Nanos(50'000));
  qp.cold->path_changes = 3;
}

bool third_of_each_burst(std::size_t i) { return i % 3 == 2; }
bool first_of_each_burst(std::size_t i) { return i == 0; }

const Case kCases[] = {
    {"reset", {}, [](Hosts&) {}},
    {"init", {}, [](Hosts& hosts) { hosts.left_qp_->to_init({}); }},
    {"idle", {}, [](Hosts& hosts) { hosts.connect(); }},
    {"selective_idle", {.retransmission = Retransmission::automatic}, [](Hosts& hosts) { hosts.connect(); }},
    {"discovery",
     {.retransmission = Retransmission::selective},
     [](Hosts& hosts) {
       hosts.left_qp_->connect({.dest_qpn = 0x22}, hosts.left_.route_to(hosts.right_));
       hosts.left_.run(hosts.now_);
     }},
    {"posted", {}, post_mixture},
    {"sent",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.left_.run(hosts.now_);
     }},
    {"middle_of_a_burst",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.left_.sink().set_room(2);
       hosts.left_.engine().poll(hosts.left_.sink(), hosts.now_);
       hosts.right_.inject(hosts.left_.sink().take().front().bytes, hosts.now_);
       hosts.left_.sink().set_room(SIZE_MAX);
     }},
    {"middle_of_responses",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.left_.run(hosts.now_);
       for (const auto& frame : hosts.left_.sink().take()) hosts.right_.inject(frame.bytes, hosts.now_);
       hosts.right_.sink().set_room(3);
       hosts.right_.engine().poll(hosts.right_.sink(), hosts.now_);
       hosts.right_.sink().set_room(SIZE_MAX);
     }},
    {"loss",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.step(third_of_each_burst);
       hosts.step(third_of_each_burst);
     }},
    {"selective_loss",
     {.retransmission = Retransmission::automatic},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.step(third_of_each_burst);
     }},
    {"selective_loss_of_the_first",
     {.retransmission = Retransmission::automatic},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.step(first_of_each_burst);
       hosts.step(first_of_each_burst);
     }},
    {"middle_of_onlies",
     {.retransmission = Retransmission::automatic},
     [](Hosts& hosts) {
       hosts.connect();
       hosts.post(WrOpcode::rdma_write, 1000);
       hosts.left_.sink().set_room(2);
       hosts.left_.engine().poll(hosts.left_.sink(), hosts.now_);
       ASSERT_TRUE(hosts.left_.engine().has_onlies());
       for (const auto& frame : hosts.left_.sink().take()) hosts.right_.inject(frame.bytes, hosts.now_);
       hosts.left_.sink().set_room(SIZE_MAX);
     }},
    {"receiver_not_ready",
     {},
     [](Hosts& hosts) {
       hosts.connect();
       hosts.post(WrOpcode::send, 700);
       hosts.step();
       hosts.step();
     }},
    {"dcqcn",
     {.congestion = CongestionAlgorithm::dcqcn},
     [](Hosts& hosts) {
       post_mixture(hosts);
       // As after CNPs, until the rate is low enough to wait for turns.
       for (int i = 0; i < 40; ++i) hosts.left_qp_->qp().cold->congestion->on_cnp(hosts.now_);
       hosts.left_qp_->qp().paced = true;
       hosts.left_.engine().poll(hosts.left_.sink(), hosts.now_);
     }},
    {"dcqcn_path",
     {.retransmission = Retransmission::automatic, .congestion = CongestionAlgorithm::dcqcn},
     [](Hosts& hosts) {
       hosts.connect();
       set_path(hosts);
     }},
    {"swift",
     {.congestion = CongestionAlgorithm::swift},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.step(third_of_each_burst);
       hosts.step(third_of_each_burst);
     }},
    {"shared_receive_queue",
     {.srq = true},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.step(third_of_each_burst);
     }},
    {"send_queue_drained",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.left_.run(hosts.now_);
       hosts.left_qp_->set_state(QpState::sqd);
     }},
    {"error",
     {},
     [](Hosts& hosts) {
       post_mixture(hosts);
       hosts.left_.run(hosts.now_);
       hosts.left_qp_->set_state(QpState::error);
       hosts.right_qp_->set_state(QpState::error);
     }},
    {"uc",
     {.type = QpType::uc},
     [](Hosts& hosts) {
       hosts.connect();
       hosts.post_recv();
       hosts.post(WrOpcode::send, 1000);
       hosts.left_.sink().set_room(2);
       hosts.left_.engine().poll(hosts.left_.sink(), hosts.now_);
       for (const auto& frame : hosts.left_.sink().take()) hosts.right_.inject(frame.bytes, hosts.now_);
       hosts.left_.sink().set_room(SIZE_MAX);
     }},
    {"ud",
     {.type = QpType::ud},
     [](Hosts& hosts) {
       hosts.connect();
       hosts.post_recv();
       hosts.post(WrOpcode::send, 100);
     }},
    // The datagram has left for the wire. Its copy for the members on this device waits for room.
    {"ud_multicast",
     {.type = QpType::ud},
     [](Hosts& hosts) {
       hosts.connect();
       wire::Route route = hosts.left_.route_to(hosts.right_);
       route.dgid = Gid::from_ipv4(0xe0000107);
       hosts.ah_ = hosts.left_.make_ah(route);
       hosts.remote_qpn_ = kMulticastQpn;
       ASSERT_TRUE(hosts.left_.engine().groups().join(route.dgid, 0x11));
       hosts.post(WrOpcode::send, 100);
       hosts.left_.sink().set_room(1);
       hosts.left_.engine().poll(hosts.left_.sink(), hosts.now_);
       ASSERT_EQ(hosts.left_qp_->qp().tx.cursor.packet(), 1u);
       hosts.left_.sink().set_room(SIZE_MAX);
     }},
};

class Snapshot : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    hosts_ = std::make_unique<Hosts>(GetParam().options);
    GetParam().prepare(*hosts_);
    if (HasFatalFailure()) return;
    left_ = hosts_->left_qp_->leave_engine(hosts_->now_);
    right_ = hosts_->right_qp_->leave_engine(hosts_->now_);
  }
  Result<void> enter(TestQp& qp, std::span<const std::byte> snapshot) {
    return qp.enter_engine(snapshot, hosts_->now_);
  }
  /// Has the QP do whatever it would do: it sends, hears its peer, and its timers end.
  void exercise(TestEndpoint& host, const std::vector<test::SentFrame>& heard) {
    Nanos now = hosts_->now_;
    for (int round = 0; round < 6; ++round) {
      host.sink().set_room(40);
      for (int i = 0; i < 8; ++i) host.engine().poll(host.sink(), now);
      host.sink().take();
      for (const auto& frame : heard) host.inject(frame.bytes, now);
      now += Nanos(round < 3 ? 50'000 : 400'000'000);
    }
    host.sink().set_room(SIZE_MAX);
    EXPECT_TRUE(host.guards_intact());
  }

  std::unique_ptr<Hosts> hosts_;
  Bytes left_;
  Bytes right_;
};

TEST_P(Snapshot, ComesBackAsItWas) {
  for (auto [qp, snapshot] : {std::pair(hosts_->left_qp_, left_), std::pair(hosts_->right_qp_, right_)}) {
    const auto entered = enter(*qp, snapshot);
    ASSERT_TRUE(entered.has_value()) << entered.error().text;
    EXPECT_EQ(qp->leave_engine(hosts_->now_), snapshot);
    // Moments are relative: a clock that shows another time changes nothing.
    const Nanos other = hosts_->now_ + Nanos(int64_t{4096} << 32);  // timers tick together
    ASSERT_TRUE(qp->enter_engine(snapshot, other).has_value());
    EXPECT_EQ(qp->leave_engine(other), snapshot);
    ASSERT_TRUE(enter(*qp, snapshot).has_value());
  }
}

TEST_P(Snapshot, TrafficGoesOn) {
  ASSERT_TRUE(enter(*hosts_->left_qp_, left_).has_value());
  ASSERT_TRUE(enter(*hosts_->right_qp_, right_).has_value());
  if (hosts_->left_qp_->state() != QpState::rts || hosts_->right_qp_->state() != QpState::rts) return;
  for (int i = 0; i < 4; ++i) hosts_->post_recv();
  for (int i = 0; i < 400; ++i) {
    hosts_->now_ += Nanos(1'000'000);
    hosts_->step();
  }
  const Qp& qp = hosts_->left_qp_->qp();
  EXPECT_EQ(qp.tx.oldest, qp.tx.sq.next()) << "requests that never completed";
  EXPECT_EQ(qp.tx.sq.available(), 0u);
  EXPECT_EQ(hosts_->left_.engine().parked_frames() + hosts_->right_.engine().parked_frames(), 0u);
}

TEST_P(Snapshot, IsRefusedWhenAnythingIsMissing) {
  for (std::size_t n = 0; n < left_.size(); n += n < 100 ? 1 : 7) {
    Bytes part(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(n));
    ASSERT_EQ(enter(*hosts_->left_qp_, part).error().code, EINVAL) << n << " bytes";
    if (n < kSnapshotHeaderBytes) continue;
    seal_snapshot(part);
    const auto entered = enter(*hosts_->left_qp_, part);
    ASSERT_FALSE(entered.has_value()) << n << " bytes";
    EXPECT_NE(entered.error().text.find("is missing"), std::string::npos) << entered.error().text;
  }
  left_.push_back(std::byte{0});
  seal_snapshot(left_);
  EXPECT_NE(enter(*hosts_->left_qp_, left_).error().text.find("1 bytes follow the end"), std::string::npos);
}

TEST_P(Snapshot, IsRefusedWithAnyBitWrong) {
  for (std::size_t bit = 0; bit < left_.size() * 8; bit += bit < kSnapshotHeaderBytes * 8 ? 1 : 61) {
    left_[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_EQ(enter(*hosts_->left_qp_, left_).error().code, EINVAL) << "bit " << bit;
    left_[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(enter(*hosts_->left_qp_, left_).has_value());
}

// The checksum fits: whoever wrote this meant it. It may do what a queue pair may, and no more.
TEST_P(Snapshot, DoesNoHarmHoweverItWasChanged) {
  ASSERT_TRUE(enter(*hosts_->left_qp_, left_).has_value());
  ASSERT_TRUE(enter(*hosts_->right_qp_, right_).has_value());
  hosts_->left_.run(hosts_->now_);
  hosts_->right_.run(hosts_->now_);
  const auto from_left = hosts_->left_.sink().take();
  const auto from_right = hosts_->right_.sink().take();
  hosts_->left_qp_->leave_engine(hosts_->now_);
  hosts_->right_qp_->leave_engine(hosts_->now_);
  Random random(1);
  uint32_t accepted = 0;
  for (int i = 0; i < 600; ++i) {
    const bool left = i % 2 == 0;
    TestQp& qp = left ? *hosts_->left_qp_ : *hosts_->right_qp_;
    TestEndpoint& host = left ? hosts_->left_ : hosts_->right_;
    Bytes changed = left ? left_ : right_;
    for (uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      const uint64_t at = kSnapshotHeaderBytes + random.below(changed.size() - kSnapshotHeaderBytes);
      changed[at] = random.chance(0.5) ? changed[at] ^ std::byte{1} << random.below(8) : std::byte(random.below(256));
    }
    seal_snapshot(changed);
    const auto entered = enter(qp, changed);
    if (entered.has_value()) {
      ++accepted;
      exercise(host, left ? from_right : from_left);
      qp.leave_engine(hosts_->now_);
    } else {
      EXPECT_EQ(entered.error().code, EINVAL);
    }
    ASSERT_EQ(host.engine().parked_frames(), 0u) << entered.has_value();
    ASSERT_FALSE(HasFailure()) << "change " << i;
  }
  EXPECT_GT(accepted, 0u);
}

INSTANTIATE_TEST_SUITE_P(States, Snapshot, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// --- Earlier versions --------------------------------------------------------------------------------------------

TEST(SnapshotOfOnlies, AnEngineDoesWithoutThem) {
  Hosts hosts({.retransmission = Retransmission::automatic});
  hosts.connect();
  const auto opcode_of_next = [&] {
    hosts.post(WrOpcode::rdma_write, 1000);
    hosts.left_.run(hosts.now_);
    const auto frames = hosts.left_.sink().take();
    for (const auto& frame : frames) hosts.right_.inject(frame.bytes, hosts.now_);
    return wire::parse(frames.front().bytes, wire::Icrc::check)->bth.opcode;
  };
  transport::Engine& engine = hosts.left_.engine();
  EXPECT_EQ(opcode_of_next(), wire::Opcode::rc_write_only);
  engine.keep_writes_whole(true);
  EXPECT_TRUE(engine.has_onlies()) << "it is not acknowledged yet";
  hosts.settle();
  EXPECT_FALSE(engine.has_onlies());
  EXPECT_EQ(opcode_of_next(), wire::Opcode::rc_write_first);
  EXPECT_FALSE(engine.has_onlies());
  hosts.settle();
  engine.keep_writes_whole(false);
  EXPECT_EQ(opcode_of_next(), wire::Opcode::rc_write_only);
  hosts.settle();
  EXPECT_EQ(hosts.left_qp_->qp().tx.oldest, hosts.left_qp_->qp().tx.sq.next());
}

TEST(SnapshotOfPaths, AnEarlierVersionForgetsThem) {
  Hosts hosts({.retransmission = Retransmission::automatic, .congestion = CongestionAlgorithm::dcqcn});
  hosts.connect();
  set_path(hosts);
  hosts.left_qp_->qp().udp_source = 0xc456;
  const Bytes old = hosts.left_.engine().snapshot(hosts.left_qp_->qp(), hosts.now_, 11);
  hosts.left_qp_->leave_engine(hosts.now_);
  const auto entered = hosts.left_qp_->enter_engine(old, hosts.now_);
  ASSERT_TRUE(entered.has_value()) << entered.error().text;
  const Qp& qp = hosts.left_qp_->qp();
  EXPECT_EQ(qp.udp_source, 0xc456);
  EXPECT_EQ(qp.tx.recovery->port.wish, 0);
  EXPECT_EQ(qp.cold->congestion->congested_rounds().count(hosts.now_), 0u);
  EXPECT_EQ(qp.cold->path_changes, 0u);
  hosts.post(WrOpcode::rdma_write, 1000);
  hosts.settle();
  EXPECT_EQ(qp.tx.oldest, qp.tx.sq.next());
}

// --- Errors ------------------------------------------------------------------------------------------------------

/// The next READ would be answered beyond the end of the ring.
void fill_with_replays(Qp& qp) {
  ReplayStore& store = qp.cold->replay;
  Resource& resource = *store.add();
  resource.packets = 1;
  resource.pd = qp.pd;
  resource.busy = false;
  for (std::size_t i = 0; i < 2 * store.resources().size() + 2; ++i) {
    qp.responses.push(store, resource, 0, 1, false);
  }
}

/// A READ of another tenant's memory that was, as the snapshot says, allowed.
void replay_foreign_memory(Qp& qp) {
  Resource& resource = *qp.cold->replay.add();
  resource.packets = 1;
  resource.pd = qp.pd + 1;
}

class SnapshotErrors : public testing::Test {
 protected:
  std::string refusal(Hosts& hosts, std::span<const std::byte> snapshot) {
    const auto entered = hosts.left_qp_->enter_engine(snapshot, hosts.now_);
    return entered.has_value() ? "" : entered.error().text;
  }
};

TEST_F(SnapshotErrors, AnotherVersionIsRefused) {
  Hosts hosts({});
  Bytes snapshot = hosts.left_qp_->leave_engine(hosts.now_);
  snapshot[4] = std::byte{kSnapshotVersion + 1};
  EXPECT_EQ(refusal(hosts, snapshot),
            "cannot read the snapshot for QP 0x11: version is 13; this release reads 8 to 12: move the QP with a "
            "release that "
            "writes one of them");
}

TEST_F(SnapshotErrors, AnotherQpIsRefused) {
  Hosts hosts({});
  hosts.left_qp_->leave_engine(hosts.now_);
  EXPECT_EQ(refusal(hosts, hosts.right_qp_->leave_engine(hosts.now_)),
            "cannot read the snapshot for QP 0x11: qpn is 34 in the snapshot and 17 here; make the QP with the QpSpec "
            "that it had, on an engine with the same settings");
}

TEST_F(SnapshotErrors, AnotherCongestionControlIsRefused) {
  Hosts hosts({.congestion = CongestionAlgorithm::dcqcn});
  hosts.connect();
  const Bytes snapshot = hosts.left_qp_->leave_engine(hosts.now_);
  Hosts others({.congestion = CongestionAlgorithm::swift});
  others.left_qp_->leave_engine(hosts.now_);
  EXPECT_NE(refusal(others, snapshot).find("algorithm is dcqcn in the snapshot and swift here"), std::string::npos);
}

TEST_F(SnapshotErrors, AFullFramePoolIsToldAndGivenBack) {
  Hosts hosts({.retransmission = Retransmission::automatic});
  post_mixture(hosts);
  hosts.step(first_of_each_burst);
  ASSERT_GT(hosts.right_.engine().parked_frames(), 1u);
  const Bytes snapshot = hosts.right_qp_->leave_engine(hosts.now_);
  Hosts small({.parking_frames = 1});
  small.right_qp_->leave_engine(small.now_);
  const auto entered = small.right_qp_->enter_engine(snapshot, small.now_);
  ASSERT_FALSE(entered.has_value());
  EXPECT_EQ(entered.error().code, ENOMEM);
  EXPECT_NE(entered.error().text.find("requests_ahead"), std::string::npos) << entered.error().text;
  EXPECT_NE(entered.error().text.find("raise parking_frames"), std::string::npos) << entered.error().text;
  EXPECT_EQ(small.right_.engine().parked_frames(), 0u);
}

TEST_F(SnapshotErrors, FieldsThatContradictEachOtherAreNamed) {
  struct Change {
    void (*make)(Qp&);
    const char* named;
  };
  const Change kChanges[] = {
      {[](Qp& qp) { qp.mtu_shift = 31; }, "qp.mtu_shift is 31; it must be 8 to 12"},
      {[](Qp& qp) { qp.tx.window = 4096; }, "qp.tx.window is 4096; it must be 0 to 1024"},
      {[](Qp& qp) { qp.tx.cursor.move_to(qp.tx.oldest + 9); }, "tx.cursor.index"},
      {[](Qp& qp) { qp.tx.cursor.move_to(qp.tx.oldest, 99); }, "tx.cursor.packet"},
      {[](Qp& qp) { qp.tx.oldest -= 17; }, "tx.oldest"},
      {[](Qp& qp) { qp.tx.una += 1000; }, "tx.una"},
      {[](Qp& qp) { qp.tx.sent += 1000; }, "tx.sent"},
      {[](Qp& qp) { qp.tx.acked += 1000; }, "tx.acked"},
      {[](Qp& qp) { ++qp.tx.rd_atomic; }, "tx.rd_atomic"},
      {[](Qp& qp) { qp.slot(qp.tx.oldest).num_sge = 200; }, "slot.num_sge is 200"},
      {[](Qp& qp) { qp.slot(qp.tx.oldest).opcode = WrOpcode{200}; }, "slot.opcode is 200"},
      {[](Qp& qp) { qp.slot(qp.tx.oldest + 1).flags |= 8; }, "slot.opcode is 4"},  // READ into inline data
      {[](Qp& qp) { qp.slot(qp.tx.oldest).length += 1; }, "slot.length"},
      {[](Qp& qp) { qp.slot(qp.tx.oldest).packets += 1; }, "slot.packets"},
      {[](Qp& qp) { qp.rx.message.take_recv(200); }, "rx.message.recv_num_sge"},
      {[](Qp& qp) { qp.rx.message.add_to_send(0); }, "rx.message.recv_in_use"},
      {[](Qp& qp) { qp.responses.push(qp.cold->replay, *qp.cold->replay.add(), 0, 9, true); }, "replay.jobs"},
      {fill_with_replays, "replay.waiting"},
      {replay_foreign_memory, "replay.resources has memory of domain 2"},
      {[](Qp& qp) { qp.pkey = 0x1234; }, "pkey is 0x1234; the port has 0xffff"},
      {[](Qp& qp) { qp.rx.message.set_later_wait(true); }, "rx.message.later_wait"},
      {[](Qp& qp) { qp.paced = true; }, "paced"},
      {[](Qp& qp) { qp.route = nullptr; }, "route"},
      {[](Qp& qp) { qp.cold->timer_pending = true, qp.cold->wheel_deadline = kNever; }, "timer_pending"},
  };
  for (const Change& change : kChanges) {
    Hosts hosts({});
    post_mixture(hosts);
    hosts.left_.run(hosts.now_);
    change.make(hosts.left_qp_->qp());
    const std::string text = refusal(hosts, hosts.left_qp_->leave_engine(hosts.now_));
    EXPECT_NE(text.find(change.named), std::string::npos) << change.named << " in: " << text;
  }
}

TEST_F(SnapshotErrors, PacketsLargerThanThePortsAreRefused) {
  Hosts hosts({});
  hosts.connect();
  hosts.left_qp_->qp().mtu_shift = 12;
  const Bytes snapshot = hosts.left_qp_->leave_engine(hosts.now_);
  Hosts smaller({.port_mtu = Mtu::mtu1024});
  smaller.left_qp_->leave_engine(smaller.now_);
  EXPECT_NE(refusal(smaller, snapshot).find("packets of 4096 bytes; the port has 1024"), std::string::npos);
}

// With headers of its own choice a client would send what only CAP_NET_RAW allows, or speak as another host.
TEST_F(SnapshotErrors, HeadersThatThePortDoesNotSendAreRefused) {
  struct Change {
    std::size_t at;
    uint8_t value;
    const char* what;
  };
  constexpr Change kChanges[] = {
      {12, 0x06, "an ethertype"}, {13, 0x06, "ARP"},    {6, 0xfe, "Ethernet source"}, {23, 6, "TCP"},
      {37, 53, "a UDP port"},     {20, 0, "fragments"}, {14, 0x46, "IP options"},     {26, 11, "an IP source"}};
  for (const Change& change : kChanges) {
    Hosts hosts({});
    hosts.connect();
    wire::RouteTemplate route = *hosts.left_qp_->qp().route;
    route.bytes[change.at] = std::byte{change.value};
    // Another address, in a header that is right.
    if (change.at == 26) {
      wire::Route stolen = hosts.left_.route_to(hosts.right_);
      stolen.sgid = Gid::from_ipv4(0x0b000001);
      route = wire::make_template(stolen);
    }
    hosts.left_qp_->qp().route = &route;
    const std::string text = refusal(hosts, hosts.left_qp_->leave_engine(hosts.now_));
    EXPECT_NE(text.find("route has "), std::string::npos) << change.what << ": " << text;
  }
}

TEST_F(SnapshotErrors, AFieldThatOnlyRcUsesIsNamed) {
  Hosts hosts({.type = QpType::uc});
  hosts.connect();
  hosts.left_qp_->qp().tx.lost.on_detected();
  const std::string text = refusal(hosts, hosts.left_qp_->leave_engine(hosts.now_));
  EXPECT_NE(text.find("tx.lost is set, but only an RC QP uses it"), std::string::npos) << text;
}

TEST_F(SnapshotErrors, ANumberThatIsTakenIsRefused) {
  Hosts hosts({});
  const Bytes snapshot = hosts.left_qp_->leave_engine(hosts.now_);
  hosts.left_.make_qp({.qpn = 0x11});
  const auto entered = hosts.left_qp_->enter_engine(snapshot, hosts.now_);
  ASSERT_FALSE(entered.has_value());
  EXPECT_EQ(entered.error().code, EBUSY);
  EXPECT_EQ(entered.error().text, "cannot take over QP 0x11: engine 0 has a QP of this number; detach that one first");
}

TEST_F(SnapshotErrors, ANumberOfAnotherEngineIsRefused) {
  test::BareContext bare;
  Engine engine({.index = 0, .index_bits = 1, .max_qps = 16}, bare.regions, bare.events);
  test::BareQp qp(0x11);
  const auto entered = engine.import_qp(*qp, {}, Nanos(0));
  ASSERT_FALSE(entered.has_value());
  EXPECT_EQ(entered.error().code, EBUSY);
  EXPECT_EQ(entered.error().text,
            "cannot take over QP 0x11: its number belongs to engine 1, and this is engine 0; give it to engine 1");
}

// --- Moves between engines ---------------------------------------------------------------------------------------

TEST(Migration, RoutesFollowTheirNextHop) {
  Hosts hosts({});
  hosts.connect();
  hosts.left_.move_to_new_engine(hosts.now_);
  const EthAddr mac{{2, 0, 0, 0, 0, 9}};
  hosts.left_.engine().redirect([&](const Gid&) { return std::optional(mac); });
  hosts.post(WrOpcode::rdma_write, 10);
  hosts.left_.run(hosts.now_);
  const auto sent = hosts.left_.sink().take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::memcmp(sent[0].bytes.data(), mac.bytes.data(), mac.bytes.size()), 0);
}

// An engine of another release may have it on the same port.
TEST(Migration, AWindowMayBeALittleShorterThere) {
  for (const auto& [there, refused] : {std::pair(31u, false), std::pair(17u, false), std::pair(16u, true)}) {
    Hosts hosts({.retransmission = Retransmission::selective});
    hosts.connect();
    for (uint32_t i = 0; i < 4; ++i) hosts.post(WrOpcode::rdma_write, 3000);
    hosts.left_.run(hosts.now_);
    const Bytes snapshot = hosts.left_qp_->leave_engine(hosts.now_);
    Hosts others({.retransmission = Retransmission::selective, .window = there});
    others.connect();
    (void)others.left_qp_->leave_engine(others.now_);
    const auto entered = others.left_qp_->enter_engine(snapshot, others.now_);
    const std::string text = entered ? "" : entered.error().text;
    EXPECT_EQ(text.find("window_packets is 32") != std::string::npos, refused) << there << text;
    EXPECT_EQ(entered.has_value(), !refused) << there << text;
  }
}

TEST(Migration, AReceiveThatIsHeldStaysSo) {
  Hosts hosts({.srq = true});
  hosts.connect();
  hosts.post_recv();
  hosts.post(WrOpcode::send, 1000);
  hosts.left_.sink().set_room(2);
  hosts.left_.run(hosts.now_);
  for (const auto& frame : hosts.left_.sink().take()) hosts.right_.inject(frame.bytes, hosts.now_);
  hosts.left_.sink().set_room(SIZE_MAX);
  hosts.right_.move_to_new_engine(hosts.now_);
  EXPECT_EQ(hosts.right_qp_->held_recv(), 1u);
  hosts.settle();
  EXPECT_EQ(hosts.right_qp_->held_recv(), std::nullopt) << "the message has arrived";
}

TEST(Migration, ADoorbellThatHasRungIsHeard) {
  Hosts hosts({});
  hosts.connect();
  for (int i = 0; i < 3; ++i) {
    hosts.post(WrOpcode::rdma_write, 10);
    hosts.left_.move_to_new_engine(hosts.now_, Nanos(i * 4096));
    hosts.settle();
    EXPECT_EQ(hosts.left_qp_->qp().tx.oldest, static_cast<uint32_t>(i + 1));
  }
}

}  // namespace
}  // namespace uroce::transport
