// Engines are recorded, and the recordings replayed. UROCE_TEST_RECORD does so with all tests of the transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "record/alike.h"
#include "tests/support/recording.h"
#include "tests/support/test_endpoint.h"
#include "transport/qp/srq.h"

namespace uroce::test {
namespace {

using record::Report;

/// Two hosts with a recorded engine each.
class RecordTest : public testing::Test {
 protected:
  static EndpointOptions options(uint32_t host, Recording& recording) {
    EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000000 + host);
    options.mac = EthAddr{{2, 0, 0, 0, 0, static_cast<uint8_t>(host)}};
    options.seed = host;
    options.recorded = false;
    options.engine.settings.retransmission = Retransmission::selective;
    options.engine.tape = recording.tape();
    return options;
  }

  struct Connection {
    TestRegion& source;
    TestRegion& target;
    TestQp& requester;
    TestQp& responder;
  };
  Connection connect() {
    Connection made{left_.make_region(65536, kAllAccess), right_.make_region(65536, kAllAccess),
                    left_.make_qp({.qpn = 0x11}), right_.make_qp({.qpn = 0x22})};
    made.requester.connect({.dest_qpn = 0x22, .sq_psn = 100, .rq_psn = 200}, left_.route_to(right_));
    made.responder.connect({.dest_qpn = 0x11, .sq_psn = 200, .rq_psn = 100}, right_.route_to(left_));
    return made;
  }
  void exchange() {
    for (int turn = 0; turn < 100; ++turn) {
      left_.run(now_);
      right_.run(now_);
      if (carry(left_, right_) + carry(right_, left_) == 0) return;
      now_ += Nanos(1000);
    }
  }
  std::size_t carry(TestEndpoint& from, TestEndpoint& to) {
    const std::vector<SentFrame> sent = from.sink().take();
    for (const SentFrame& frame : sent) {
      if (++carried_ % lose_ != 0) to.inject(frame.bytes, now_);
    }
    return sent.size();
  }
  static void expect_same(const Recording& recording) {
    const Report report = recording.replay();
    EXPECT_EQ(report.divergence, std::nullopt) << report.divergence.value_or("");
    EXPECT_FALSE(report.cut);
    EXPECT_GT(report.frames_in, 0u);
    EXPECT_GT(report.frames_out, 0u);
  }

  Nanos now_{1'000'000};
  uint64_t carried_ = 0;
  uint64_t lose_ = UINT64_MAX;
  Recording left_recording_;
  Recording right_recording_;
  TestEndpoint left_{options(1, left_recording_)};
  TestEndpoint right_{options(2, right_recording_)};
};

TEST_F(RecordTest, OperationsWithLossAreTheSame) {
  lose_ = 7;
  const auto [source, target, requester, responder] = connect();
  for (uint64_t i = 0; i < 40; ++i) {
    const Sge here = source.sge(i * 8, 8);
    const WrOpcode opcode =
        std::array{WrOpcode::send, WrOpcode::rdma_write, WrOpcode::rdma_read, WrOpcode::fetch_add}[i % 4];
    const Sge receive = target.sge(4096 + i * 8, 8);
    ASSERT_TRUE(responder.post_recv({.wr_id = i, .sges = {&receive, 1}}));
    ASSERT_TRUE(requester.post_send({.wr_id = i,
                                     .opcode = opcode,
                                     .flags = SendFlag::signaled,
                                     .sges = {&here, 1},
                                     .remote_addr = target.va() + i * 8,
                                     .rkey = target.key(),
                                     .compare_add = i}));
    exchange();
    now_ += Nanos(20'000'000);
    exchange();
  }
  expect_same(left_recording_);
  expect_same(right_recording_);
  EXPECT_GE(left_recording_.replay().completions, 40u);
}

// A truncated recording is replayed as far as it goes.
TEST_F(RecordTest, BrokenRecordingsEnd) {
  const auto [source, target, requester, responder] = connect();
  const Sge here = source.sge(0, 5000);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(requester.post_send({.wr_id = i,
                                     .opcode = WrOpcode::rdma_write,
                                     .flags = SendFlag::signaled,
                                     .sges = {&here, 1},
                                     .remote_addr = target.va(),
                                     .rkey = target.key()}));
  }
  exchange();
  const auto records = right_recording_.records();
  for (std::size_t length = 0; length < records.size(); length += 136) {
    const Report report = record::Replayer(std::span(records).first(length)).run();
    EXPECT_TRUE(!report.divergence || report.divergence->find("sense") != std::string::npos) << *report.divergence;
  }
}

TEST_F(RecordTest, AnotherFrameIsFound) {
  auto& requester = left_.make_qp({.qpn = 0x11});
  requester.connect({.dest_qpn = 0x22, .sq_psn = 100, .rq_psn = 200}, left_.route_to(right_));
  ASSERT_TRUE(requester.post_send({.wr_id = 1, .opcode = WrOpcode::rdma_write}));
  left_.run(now_);
  std::vector<std::byte> other = left_recording_.records();
  std::size_t changed = 0;
  for (std::size_t at = 0; at < other.size();) {
    record::Head head;
    std::memcpy(&head, other.data() + at, sizeof head);
    at += sizeof head + record::padded(head.bytes);
    if (head.kind != record::Kind::sent) continue;
    // The last byte of the last header: of the RETH's length.
    other[at - record::padded(head.bytes) + head.bytes - 1] ^= std::byte{1};
    ++changed;
  }
  ASSERT_GT(changed, 0u);
  const Report report = record::Replayer(other).run();
  ASSERT_TRUE(report.divergence.has_value());
  EXPECT_NE(report.divergence->find(" of the burst differs"), std::string::npos) << *report.divergence;
}

/// Where the first record of a kind begins; the end if there is none.
std::size_t find_record(std::span<const std::byte> records, record::Kind kind) {
  std::size_t at = 0;
  while (at < records.size()) {
    record::Head head;
    std::memcpy(&head, records.data() + at, sizeof head);
    if (head.kind == kind) break;
    at += sizeof head + record::padded(head.bytes);
  }
  return at;
}

/// Changes the first record of a kind, and replays it.
template <class T, class Change>
std::string replay_changed(std::span<const std::byte> records, record::Kind kind, Change&& change,
                           std::size_t at_byte = 0) {
  std::vector<std::byte> other(records.begin(), records.end());
  if (const std::size_t at = find_record(records, kind); at < other.size()) {
    std::byte* const place = other.data() + at + sizeof(record::Head) + at_byte;
    T value;
    std::memcpy(static_cast<void*>(&value), place, sizeof value);
    change(value);
    std::memcpy(place, &value, sizeof value);
  }
  return record::Replayer(other).run().divergence.value_or("bit-exact");
}

// The engine trusts its control, which a file may not be.
TEST_F(RecordTest, RecordsThatNoRecorderWritesAreRefused) {
  connect();
  exchange();
  const auto records = left_recording_.records();
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  using record::Kind;
  const auto engine = [&](auto change) { return replay_changed<record::EngineRecord>(records, Kind::engine, change); };
  EXPECT_PRED2(has, engine([](auto& r) { r.max_qps = 3; }), "max_qps is 3");
  EXPECT_PRED2(has, engine([](auto& r) { r.index = 1; }), "index is 1; it is 0 to 0");
  EXPECT_PRED2(has, engine([](auto& r) { r.settings.udp_source_ports = 0; }), "udp_source_ports");
  EXPECT_PRED2(has,
               replay_changed<uint8_t>(
                   records, Kind::engine, [](auto& r) { r = 7; }, offsetof(record::EngineRecord, check_icrc)),
               "a bool in it is neither 0 nor 1");
  const auto qp = [&](auto change) { return replay_changed<record::QpRecord>(records, Kind::attach, change); };
  EXPECT_PRED2(has, qp([](auto& r) { r.sq.entries = 1u << 21; }), "a ring has 2097152 entries");
  EXPECT_PRED2(has, qp([](auto& r) { r.window_packets *= 2; }), "its window is not the engine's");
  EXPECT_PRED2(has, qp([](auto& r) { r.rq.entries = 0; }), "lacks a queue");
  EXPECT_PRED2(has, qp([](auto& r) { r.now = Nanos(-1); }), "its time is -1 ns");
  const auto modify = [&](auto change) { return replay_changed<record::ModifyRecord>(records, Kind::modify, change); };
  EXPECT_PRED2(has, modify([](auto& r) { r.attr.state = QpState::rtr; }), "cannot go from RESET to RTR");
  EXPECT_PRED2(has, modify([](auto& r) { r.qpn = 5; }), "there is no QP 0x5");
  const std::string small = record::Replayer(records, nullptr, 1000).run().divergence.value_or("");
  EXPECT_PRED2(has, small, "all rings together have");
}

// Before the queues are restored, a client may have no place in them.
TEST_F(RecordTest, ADoorbellWithinAKeyframeIsRefused) {
  connect();
  exchange();
  std::vector<std::byte> records = left_recording_.records();
  const std::size_t at = find_record(records, record::Kind::key_end);
  ASSERT_LT(at, records.size());
  const record::DoorbellRecord bell{.ring = 1, .token = 0x11, .client = 1};
  const record::Head head{sizeof bell, record::Kind::doorbell, 0};
  std::vector<std::byte> more(sizeof head + record::padded(sizeof bell));
  std::memcpy(more.data(), &head, sizeof head);
  std::memcpy(more.data() + sizeof head, &bell, sizeof bell);
  records.insert(records.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
  const std::string found = record::Replayer(records).run().divergence.value_or("bit-exact");
  EXPECT_NE(found.find("this is no part of a keyframe"), std::string::npos) << found;
}

// The newest part is always there, and a replay begins with the oldest keyframe.
TEST_F(RecordTest, AFullRecordingGoesOnWithTheOldestPart) {
  constexpr std::size_t kSmall = 100'000;
  Recording small(kSmall);
  std::size_t most = 0;
  {
    TestEndpoint host(options(3, small));
    auto& region = host.make_region(65536, kAllAccess);
    auto& qp = host.make_qp({.qpn = 0x33});
    qp.connect({.dest_qpn = 0x44, .sq_psn = 1, .rq_psn = 1}, host.route_to(right_));
    const Sge here = region.sge(0, 64);
    for (uint64_t i = 0; i < 3000; ++i) {
      static_cast<void>(qp.post_send({.wr_id = i, .opcode = WrOpcode::rdma_write, .sges = {&here, 1}}));
      host.run(now_ += Nanos(1'000'000));
      if (i % 50 != 0) continue;
      const Report report = small.replay();
      ASSERT_EQ(report.divergence, std::nullopt) << report.divergence.value_or("");
      most = std::max(most, small.records().size());
    }
  }
  EXPECT_FALSE(small.recorder().stopped());
  EXPECT_GT(small.recorder().written(), 3 * kSmall);
  EXPECT_GT(most, kSmall / 2);
  EXPECT_GT(small.replay().keyframes, 0u);
}

TEST_F(RecordTest, AQueuePairOfAnotherStateIsNamed) {
  Recording small(100'000);
  {
    TestEndpoint host(options(3, small));
    auto& qp = host.make_qp({.qpn = 0x33});
    qp.connect({.dest_qpn = 0x44, .sq_psn = 1, .rq_psn = 1}, host.route_to(right_));
    while (small.collected().keyframes.size() < 2) host.run(now_ += Nanos(1'000'000));
  }
  const record::Collected all = small.collected();
  const auto last = std::span(all.records).subspan(all.keyframes.back());
  const std::size_t at = find_record(last, record::Kind::key_qp);
  ASSERT_LT(at, last.size());
  std::vector<std::byte> other = all.records;
  // The next slot of its send queue.
  const std::size_t next = sizeof(record::Head) + sizeof(record::QpRecord) + offsetof(record::RingRecord, next);
  other[all.keyframes.back() + at + next] ^= std::byte{1};
  const std::string found = record::Replayer(other).run().divergence.value_or("bit-exact");
  EXPECT_NE(found.find("the state of queue pair 0x33 differs at byte 8 of"), std::string::npos) << found;
}

// A replay's keyframes have no queue that the engine has lost sight of.
TEST_F(RecordTest, SharedReceiveQueuesComeAndGo) {
  Recording recording(1'000'000, 8192);
  {
    TestEndpoint host(options(3, recording));
    TestCq& cq = host.make_cq(64);
    for (uint32_t i = 0; i < 6; ++i) {
      TestSrq& srq = i % 2 == 0 ? host.make_srq(16) : host.make_xrc_srq(5, cq, 16);
      const bool xrc = srq.srq().xrc_domain != 0;
      TestQp& qp = host.make_qp({.qpn = 0x30 + i,
                                 .type = xrc ? QpType::xrc_target : QpType::rc,
                                 .recv_cq = &cq,
                                 .srq = &srq,
                                 .xrc_domain = xrc ? 5u : 0u});
      qp.connect({.dest_qpn = 0x44, .sq_psn = 1, .rq_psn = 1}, host.route_to(right_));
      for (int turn = 0; turn < 200; ++turn) {
        static_cast<void>(srq.post_recv({.wr_id = 1, .sges = {}}));
        if (!xrc) static_cast<void>(qp.post_send({.wr_id = 1, .opcode = WrOpcode::rdma_write}));
        host.run(now_ += Nanos(1'000'000));
      }
      host.engine().detach(qp.qp());
      if (xrc) host.engine().detach_srq(srq.srq());
    }
  }
  for (const Report& report : {recording.replay(), recording.replay_pieces()}) {
    EXPECT_EQ(report.divergence, std::nullopt) << report.divergence.value_or("");
  }
  EXPECT_GT(recording.replay().keyframes, 5u);
}

// A keyframe that fits into no part ends the recording. Earlier records stay.
// Memory that is recorded is memory that is written: a message of a busy flow takes no more than its request, and what
// is its own of its headers.
TEST_F(RecordTest, AMessageOfAFlowTakesFewBytes) {
  const auto [source, target, requester, responder] = connect();
  const Sge here = source.sge(0, 8);
  const auto post = [&] {
    for (uint64_t i = 0; i < 32; ++i) {
      ASSERT_TRUE(requester.post_send({.wr_id = i,
                                       .opcode = WrOpcode::rdma_write,
                                       .flags = i == 31 ? SendFlags(SendFlag::signaled) : SendFlags(),
                                       .sges = {&here, 1},
                                       .remote_addr = target.va() + i * 8,
                                       .rkey = target.key()}));
    }
    exchange();
  };
  post();
  const uint64_t before = left_recording_.recorder().written();
  post();
  const uint64_t bytes = left_recording_.recorder().written() - before;
  const uint64_t request = sizeof(uint16_t) + sizeof(queues::SendWqe) + sizeof(Sge);
  const uint64_t headers = 4 + wire::kRethBytes + record::kMiddleBytes;
  constexpr uint64_t kOfTheBurst = 40;
  EXPECT_LE(bytes / 32, request + headers + kOfTheBurst);
  expect_same(left_recording_);
  expect_same(right_recording_);
}

// A replay does not know of a ring that was refused.
TEST_F(RecordTest, ADoorbellRingWithoutRoomLeavesNoClient) {
  transport::Engine& engine = left_.engine();
  uint32_t rings = 0;
  while (engine.attach_doorbells({}, 1000 + rings)) ++rings;
  const auto before = engine.image().clients;
  EXPECT_FALSE(engine.attach_doorbells({}, 1000 + rings, {.user = 7}));
  EXPECT_EQ(engine.image().clients, before);
}

TEST_F(RecordTest, TooManyQueuePairsEndARecording) {
  Recording small(50'000);
  {
    TestEndpoint host(options(3, small));
    for (uint32_t i = 0; i < 60; ++i) {
      auto& qp = host.make_qp({.qpn = 0x100 + i});
      qp.connect({.dest_qpn = 0x44, .sq_psn = 1, .rq_psn = 1}, host.route_to(right_));
      host.run(now_ += Nanos(1'000'000));
    }
    EXPECT_TRUE(small.recorder().stopped());
  }
  const Report report = small.replay();
  EXPECT_EQ(report.divergence, std::nullopt) << report.divergence.value_or("");
}

}  // namespace
}  // namespace uroce::test
