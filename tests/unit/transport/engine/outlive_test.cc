// An engine's thread dies at any instruction, and another engine goes on with what it left in memory.
//
// The processor's single steps (the trap flag of x86-64) find the instruction; a long jump from their signal handler
// leaves the engine there, as a dead thread does. A run is its seed; UROCE_DEATHS=N asks for N deaths.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/support/test_endpoint.h"
#include "transport/qp/snapshot.h"

// The sanitizers' own code would be stepped through, too.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)

namespace uroce::transport {
namespace {

using test::ConnectOptions;
using test::EndpointOptions;
using test::kAllAccess;
using test::TestEndpoint;
using test::TestQp;

// --- A death ------------------------------------------------------------------------------------------------------

sigjmp_buf death;
uint64_t steps_left = 0;
bool in_harness = false;  // here the thread must not die: it may be in the C library's heap

void on_step(int) {
  if (steps_left != 0) --steps_left;
  if (steps_left == 0 && !in_harness) siglongjmp(death, 1);
}

/// Runs `work`, and dies in it after `most` instructions. False when it did.
[[gnu::noinline]] bool outlives(uint64_t most, const std::function<void()>& work) {
  struct sigaction action{};
  action.sa_handler = on_step;
  sigaction(SIGTRAP, &action, nullptr);
  steps_left = most;
  if (sigsetjmp(death, 1) != 0) return false;
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
  work();
  __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
  return true;
}

class Wire final : public FrameSink {
 public:
  std::size_t room() override { return 64; }
  void send(std::span<const TxFrame> frames) override {
    in_harness = true;
    for (const TxFrame& frame : frames) frames_.push_back(test::serialize(frame));
    in_harness = false;
  }
  std::vector<test::Frame> take() { return std::exchange(frames_, {}); }

 private:
  std::vector<test::Frame> frames_;
};

// --- The traffic meanwhile ----------------------------------------------------------------------------------------

constexpr uint32_t kLanes = 3;
constexpr std::array kOperations{WrOpcode::send,      WrOpcode::fetch_add,  WrOpcode::rdma_write_with_imm,
                                 WrOpcode::rdma_read, WrOpcode::rdma_write, WrOpcode::send_with_imm};
constexpr uint32_t kReceives = 3;  // that these take
constexpr uint32_t kBytes = 600;   // three packets

/// Two hosts. In lane 0 the near one requests, in lane 1 the far one, in lane 2 both.
class DyingHosts {
 public:
  explicit DyingHosts(Retransmission retransmission) : near_(host(retransmission, 1)), far_(host(retransmission, 2)) {
    far_.engine().mark_steps();
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      near_ends_[lane].make(near_, lane);
      far_ends_[lane].make(far_, lane);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      near_ends_[lane].connect(near_, far_, far_ends_[lane]);
      far_ends_[lane].connect(far_, near_, near_ends_[lane]);
    }
    for (int i = 0; i < 20; ++i) exchange([this] { turn(far_, wire_to_near_, wire_to_far_.take()); });
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (lane != 1) near_ends_[lane].post(far_ends_[lane]);
      if (lane != 0) far_ends_[lane].post(near_ends_[lane]);
    }
    for (auto* events : {&near_.events(), &far_.events()}) {
      events->completions.reserve(1000);
      events->async.reserve(1000);
    }
  }

  /// In its turn number `turn_of_death` the far host's engine dies after so many instructions, if it makes so many:
  /// false. All ends within a bound.
  bool run(int turn_of_death, uint64_t instructions) {
    bool lives = true;
    int idle = 0;
    for (int round = 0; round < 2000 && idle < 3; ++round) {
      const auto before = near_.events().async.size();
      bool quiet = true;
      exchange([&] {
        const auto frames = wire_to_far_.take();
        quiet = frames.empty();
        const auto work = [&] { turn(far_, wire_to_near_, frames); };
        if (round != turn_of_death) return work();
        lives = outlives(instructions, work);
        if (!lives) unknown_ = far_.outlive_engine(now_);
      });
      quiet = quiet && before == near_.events().async.size();
      const Nanos next = std::min(near_.next_deadline(), far_.next_deadline());
      idle = quiet && next == kNever ? idle + 1 : 0;
      if (quiet && next != kNever) now_ = std::max(now_, next);
    }
    EXPECT_EQ(idle, 3) << "the hosts do not come to rest";
    return lives;
  }

  void check() {
    uint32_t ended = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      SCOPED_TRACE(lane);
      const bool alive = far_ends_[lane].qp->state() == QpState::rts;
      ended += alive ? 0 : 1;
      near_ends_[lane].check(lane != 1, lane != 0, alive);
      far_ends_[lane].check(lane != 0, lane != 1, alive);
    }
    EXPECT_EQ(ended, unknown_ ? 1u : 0u);
    const auto fatal = std::ranges::count(far_.events().async, AsyncEventType::qp_fatal, &test::EventLog::Async::type);
    EXPECT_EQ(fatal, ended);
    EXPECT_TRUE(near_.guards_intact() && far_.guards_intact());
  }
  bool unknown() const { return unknown_; }

 private:
  struct End {
    void make(TestEndpoint& endpoint, uint32_t lane) {
      sends = &endpoint.make_cq();
      receives = &endpoint.make_cq();
      qp = &endpoint.make_qp({.qpn = 0x10 + lane, .signal_all = true, .send_cq = sends, .recv_cq = receives});
      memory = &endpoint.make_region(1 << 14, kAllAccess);
      std::memset(memory->bytes().data(), 0, sizeof(uint64_t));
      for (uint64_t i = 0; i < kReceives; ++i) {
        const Sge sge = memory->sge(4096 + 1024 * i, 1024);
        ASSERT_TRUE(qp->post_recv({.wr_id = i, .sges = {&sge, 1}}));
      }
    }
    void connect(const TestEndpoint& own, const TestEndpoint& other, const End& peer) const {
      qp->connect({.dest_qpn = peer.qp->qpn(), .sq_psn = 0xfffffe, .rq_psn = 0xfffffe, .mtu = Mtu::mtu256},
                  own.route_to(other));
    }
    void post(const End& peer) {
      for (uint64_t i = 0; i < kOperations.size(); ++i) {
        const bool atomic = kOperations[i] == WrOpcode::fetch_add;
        const Sge sge = memory->sge(atomic ? 64 : 2048, atomic ? 8 : kBytes);
        SendRequest request{.wr_id = i, .opcode = kOperations[i], .sges = {&sge, 1}};
        request.remote_addr = peer.memory->va() + (atomic ? 0 : 8192);
        request.rkey = peer.memory->key();
        request.imm_or_key = static_cast<uint32_t>(i);
        request.compare_add = 1;
        ASSERT_TRUE(qp->post_send(request));
      }
    }
    /// `alive`: so is the lane, and all happened exactly once; else nothing happened twice.
    void check(bool requested, bool served, bool alive) {
      const auto done = good_completions(*sends, requested ? kOperations.size() : 0);
      const auto got = good_completions(*receives, kReceives);
      uint64_t atomics = 0;
      std::memcpy(&atomics, memory->bytes().data(), sizeof atomics);
      EXPECT_LE(atomics, served ? 1u : 0u);
      if (!alive) return;
      EXPECT_EQ(done, requested ? kOperations.size() : 0);
      EXPECT_EQ(got, served ? kReceives : 0);
      EXPECT_EQ(atomics, served ? 1u : 0u);
    }
    /// Of requests 0, 1, … in order: at most one completion of each, the good ones first. At most one is missing: of a
    /// request that ended when the thread died.
    static std::size_t good_completions(test::TestCq& cq, std::size_t posted) {
      std::size_t good = 0, seen = 0;
      uint64_t next = 0;
      while (const auto cqe = cq.poll()) {
        EXPECT_GE(cqe->wr_id, next);
        next = cqe->wr_id + 1;
        ++seen;
        if (cqe->status != static_cast<uint8_t>(WcStatus::success)) continue;
        EXPECT_EQ(++good, seen) << "a good completion after a bad one";
      }
      EXPECT_LE(next, posted);
      return good;
    }

    TestQp* qp = nullptr;
    test::TestCq* sends = nullptr;
    test::TestCq* receives = nullptr;
    test::TestRegion* memory = nullptr;
  };

  static EndpointOptions host(Retransmission retransmission, uint8_t number) {
    EndpointOptions host;
    host.engine.max_qps = 64;
    host.engine.settings.retransmission = retransmission;
    host.gid = Gid::from_ipv4(0x0a000000u + number);
    host.mac.bytes[5] = number;
    return host;
  }
  void turn(TestEndpoint& host, Wire& out, const std::vector<test::Frame>& frames) const {
    for (const test::Frame& frame : frames) host.inject(frame, now_);
    while (host.engine().poll(out, now_)) {
    }
  }
  void exchange(const std::function<void()>& far_turn) {
    now_ += Nanos(10'000);
    turn(near_, wire_to_far_, wire_to_near_.take());
    far_turn();
  }

  TestEndpoint near_;
  TestEndpoint far_;
  std::array<End, kLanes> near_ends_;
  std::array<End, kLanes> far_ends_;
  Wire wire_to_near_;
  Wire wire_to_far_;
  Nanos now_{1'000'000};
  bool unknown_ = false;
};

// --- The tests ----------------------------------------------------------------------------------------------------

class Outlive : public ::testing::TestWithParam<Retransmission> {};

/// Each operation happens exactly once, whatever the instruction. The lane that the engine had in hand, if any, ends,
/// and nothing in it happens twice.
TEST_P(Outlive, AnyInstruction) {
  constexpr int kTurns = 12;  // most of the work is in these
  constexpr uint64_t kInstructions = 4000;
  const char* const asked = std::getenv("UROCE_DEATHS");
  const uint64_t wanted = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 100;
  constexpr uint64_t kSeed = 34;
  std::printf("# seed %lu\n", kSeed);
  Random random(kSeed);
  DyingHosts whole(GetParam());
  ASSERT_TRUE(whole.run(-1, 0));
  whole.check();
  uint64_t deaths = 0, unknown = 0;
  for (uint64_t tried = 0; deaths < wanted && tried < 10 * wanted && !HasFailure(); ++tried) {
    const auto turn = static_cast<int>(random.below(kTurns));
    const uint64_t instructions = 1 + random.below(kInstructions);
    SCOPED_TRACE("turn " + std::to_string(turn) + ", instruction " + std::to_string(instructions));
    DyingHosts hosts(GetParam());
    deaths += hosts.run(turn, instructions) ? 0 : 1;
    hosts.check();
    unknown += hosts.unknown() ? 1 : 0;
  }
  std::printf("# %lu deaths, %lu of them with a queue pair in hand\n", deaths, unknown);
  EXPECT_GE(deaths, wanted);
  EXPECT_GT(unknown, 0u);
  EXPECT_LT(unknown, deaths);
}

/// Without marks any queue pair may be the one that was changing, so all of them end.
TEST(OutliveUnmarked, TellsNoState) {
  TestEndpoint host;
  TestQp& qp = host.make_qp({.qpn = 0x11});
  const auto state = [&] { return host.engine().snapshot(qp.qp(), Nanos(0), kSnapshotVersion); };
  EXPECT_FALSE(state().empty());
  EXPECT_FALSE(host.engine().outlive_thread());
  EXPECT_TRUE(state().empty());
}

INSTANTIATE_TEST_SUITE_P(Both, Outlive, ::testing::Values(Retransmission::go_back_n, Retransmission::selective),
                         [](const auto& one) {
                           return one.param == Retransmission::selective ? "Selective" : "GoBackN";
                         });

}  // namespace
}  // namespace uroce::transport

#endif
