// The whole stack on ring ports. A process starts EAL once, so each test here is a program run of its own.
#include <uroce/stack.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "pmd_glue/raw_latency.h"
#include "pmd_glue/raw_rate.h"
#include "pmd_glue/stack_access.h"

namespace uroce {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

/// `lcores` as EAL's --lcores takes it.
std::vector<std::string> eal(const char* lcores) {
  return {"--no-huge", "--no-pci", "-m", "256", "--no-shconf", "--no-telemetry", "--lcores", lcores};
}

StackOptions ring_options(IdlePolicy idle = IdlePolicy::sleep) {
  StackOptions options;
  options.back_to_back = true;
  options.idle = idle;
  options.settings.max_qp = 64;
  return options;
}

/// One end of a connection.
struct End {
  End(Stack& s, const char* device, int engine = QpInit{}.engine)
      : stack(s),
        context(s.open(device).value()),
        pd(context.create_pd().value()),
        memory(256 * 1024, 0),
        mr(pd.register_memory(memory.data(), memory.size(),
                              AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read)
               .value()),
        cq(context.create_cq(256).value()),
        qp(context.create_qp(pd, cq, cq, {.cap = {.max_send_wr = 64, .max_recv_wr = 64}, .engine = engine}).value()) {}

  void connect(End& peer) {
    QueuePair::ConnectOptions options;
    options.timeout = 20;  // threads of engines that share a core may keep each other waiting
    options.path_mtu = context.info().active_mtu;
    const auto ok = qp.connect({peer.context.info().gids[0], peer.qp.qpn(), 0}, options);
    ASSERT_TRUE(ok) << ok.error().text;
  }
  void write(End& peer, uint32_t length) {
    Sge sge = mr.sge(0, length);
    SendRequest request;
    request.opcode = WrOpcode::rdma_write;
    request.flags = SendFlag::signaled;
    request.sges = {&sge, 1};
    request.remote_addr = reinterpret_cast<uint64_t>(peer.memory.data());
    request.rkey = peer.mr.rkey();
    ASSERT_EQ(qp.post_send(request), 0);
  }
  void wait() {
    std::array<Completion, 1> out{};
    const auto until = Clock::now() + seconds(20);
    while (cq.poll(out) == 0) {
      ASSERT_LT(Clock::now(), until) << "no completion";
      if (stack.embedded() && !stack.poll()) stack.idle(microseconds(100));
    }
    ASSERT_EQ(out[0].status, WcStatus::success);
  }

  Stack& stack;
  Context context;
  ProtectionDomain pd;
  std::vector<char> memory;
  MemoryRegion mr;
  CompletionQueue cq;
  QueuePair qp;
};

void write_and_verify(Stack& stack, const char* to, int rounds, int engine = QpInit{}.engine) {
  End a(stack, "uroce0", engine);
  End b(stack, to, engine);
  EXPECT_EQ(a.context.info().active_mtu, Mtu::mtu4096);
  a.connect(b);
  b.connect(a);
  for (int i = 1; i <= rounds; ++i) {
    std::ranges::fill(a.memory, static_cast<char>(i));
    const auto length = static_cast<uint32_t>(i * 9973) % 200000 + 1;
    a.write(b, length);
    a.wait();
    ASSERT_EQ(std::memcmp(a.memory.data(), b.memory.data(), length), 0);
  }
}

void run(const char* lcores, IdlePolicy idle, const char* to = "uroce1") {
  auto stack = Stack::start(eal(lcores), ring_options(idle));
  ASSERT_TRUE(stack) << stack.error().text;
  EXPECT_EQ(stack->devices(), (std::vector<std::string>{"uroce0", "uroce1"}));
  write_and_verify(*stack, to, 50);
}

TEST(Stack, Embedded) { run("0", IdlePolicy::sleep); }
TEST(Stack, EmbeddedBusy) { run("0", IdlePolicy::busy); }
TEST(Stack, EmbeddedLoopback) { run("0", IdlePolicy::sleep, "uroce0"); }
TEST(Stack, EmbeddedWholeFrames) {
  StackOptions options = ring_options();
  options.whole_frames = true;
  auto stack = Stack::start(eal("0"), options);
  ASSERT_TRUE(stack) << stack.error().text;
  write_and_verify(*stack, "uroce1", 50);
}
// It took 16 MiB for each engine first, every 10 ms where somebody waited for the end of the other one.
TEST(Stack, ASecondCaptureIsRefusedWithoutMemory) {
  auto stack = Stack::start(eal("(0-1)@0"), ring_options());
  ASSERT_TRUE(stack) << stack.error().text;
  auto first = glue::StackAccess::capture(*stack, "uroce0");
  ASSERT_TRUE(first) << first.error().text;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);  // nor its file
  const auto second = glue::StackAccess::capture(*stack, "uroce0");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EBUSY) << second.error().text;
  first->reset();
  EXPECT_TRUE(glue::StackAccess::capture(*stack, "uroce0"));
}
TEST(Stack, WorkerSleeps) { run("(0-1)@0", IdlePolicy::sleep); }
TEST(Stack, WorkerYields) { run("(0-1)@0", IdlePolicy::yield); }

// Three engines per port on one core with the application: all poll, and all make progress.
TEST(Stack, ManyEnginesOnOneCore) { run("(0-3)@0", IdlePolicy::sleep); }

// Each lcore has a loop of the program, with calls and traffic of its own engine. Then the first serves them all.
TEST(Stack, LoopsOfTheProgram) {
  StackOptions options = ring_options();
  options.own_loops = true;
  auto stack = Stack::start(eal("(0-2)@0"), options);
  ASSERT_TRUE(stack) << stack.error().text;
  EXPECT_TRUE(stack->embedded());
  ASSERT_EQ(stack->engines(), 3u);
  EXPECT_EQ(stack->start_loop(0, [] {}).error().code, EINVAL);
  EXPECT_EQ(stack->start_loop(3, [] {}).error().code, EINVAL);
  std::atomic<int> finished{0};
  for (int engine = 1; engine < 3; ++engine) {
    ASSERT_TRUE(stack->start_loop(static_cast<uint32_t>(engine), [&, engine] {
      write_and_verify(*stack, "uroce1", 100, engine);
      ++finished;
      for (uint32_t other = 0; other < 4; ++other) stack->wake(other);  // of which 3 is no engine
      while (finished < 3) {                                            // control calls of the others need this engine
        if (!stack->poll()) stack->idle(seconds(1));
      }
    }));
  }
  EXPECT_EQ(stack->start_loop(1, [] {}).error().code, EBUSY);
  write_and_verify(*stack, "uroce1", 100, 0);
  ++finished;
  for (const uint32_t engine : {1u, 2u}) stack->wake(engine);
  stack->join_loops();
  write_and_verify(*stack, "uroce1", 20, 2);
  ASSERT_TRUE(stack->start_loop(2, [&] { ++finished; }));
  stack->join_loops();
  EXPECT_EQ(finished, 4);
}
TEST(Stack, LoopsNeedLcores) {
  StackOptions options = ring_options();
  options.own_loops = true;
  auto stack = Stack::start(eal("0"), options);
  ASSERT_TRUE(stack) << stack.error().text;
  EXPECT_EQ(stack->engines(), 1u);
  EXPECT_EQ(stack->start_loop(1, [] {}).error().code, EINVAL);
  write_and_verify(*stack, "uroce1", 20);
}

// Members of a group on each engine of both devices, the sender among them.
TEST(Stack, MulticastReachesEveryEngine) {
  auto stack = Stack::start(eal("(0-3)@0"), ring_options(IdlePolicy::sleep));
  ASSERT_TRUE(stack) << stack.error().text;
  constexpr uint32_t kMessages = 20, kQkey = 5;
  const Gid group = Gid::from_ipv4(0xe0000107);
  End a(*stack, "uroce0"), b(*stack, "uroce1");
  std::vector<QueuePair> members;
  for (End* end : {&a, &b}) {
    for (int engine = 0; engine < 3; ++engine) {
      auto qp = end->context.create_qp(end->pd, end->cq, end->cq, {.type = QpType::ud, .engine = engine});
      ASSERT_TRUE(qp) << qp.error().text;
      ASSERT_TRUE(qp->start(kQkey));
      ASSERT_TRUE(qp->attach_multicast(group));
      const Sge sge = end->mr.sge(0, 100);
      for (uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(qp->post_recv({.sges = {&sge, 1}}), 0);
      members.push_back(std::move(*qp));
    }
  }
  const auto handle = a.pd.create_address_handle({.dgid = group});
  ASSERT_TRUE(handle) << handle.error().text;
  const Sge sge = a.mr.sge(1000, 60);
  const SendRequest request{.sges = {&sge, 1}, .ah = handle->id(), .remote_qpn = kMulticastQpn, .remote_qkey = kQkey};
  for (uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(members[0].post_send(request), 0);
  for (End* end : {&a, &b}) {
    for (uint32_t i = 0; i < 3 * kMessages; ++i) end->wait();
  }
}

// Calls work in place of an engine that sleeps, while doorbells wake it.
TEST(Stack, CallsAndTrafficTakeTurns) {
  auto stack = Stack::start(eal("(0-1)@0"), ring_options(IdlePolicy::sleep));
  ASSERT_TRUE(stack) << stack.error().text;
  std::atomic<bool> done{false};
  std::thread traffic([&] {
    write_and_verify(*stack, "uroce1", 300);
    done = true;
  });
  End a(*stack, "uroce0"), b(*stack, "uroce1");
  while (!done) {
    QueuePair made = a.context.create_qp(a.pd, a.cq, a.cq, {}).value();
    EXPECT_TRUE(made.connect({b.context.info().gids[0], b.qp.qpn(), 0}, {}));
    EXPECT_EQ(made.query().value().state, QpState::rts);
  }
  traffic.join();
}

TEST(Stack, NothingIsLeftOfIt) {
  std::unique_ptr<Context> context;
  {
    auto stack = Stack::start(eal("0"), ring_options());
    ASSERT_TRUE(stack) << stack.error().text;
    context = std::make_unique<Context>(stack->open("uroce0").value());
    const auto second = Stack::start(eal("0"), ring_options());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EALREADY);
  }
  const auto pd = context->create_pd();
  ASSERT_FALSE(pd) << "the stack is gone, its objects say so";
  EXPECT_EQ(pd.error().code, ENODEV);
}

TEST(Stack, SaysWhenThereIsNoPort) {
  const auto stack = Stack::start(eal("0"), {});
  ASSERT_FALSE(stack);
  EXPECT_EQ(stack.error().code, ENODEV);
  EXPECT_NE(stack.error().text.find("--vdev"), std::string::npos) << stack.error().text;
}

TEST(Stack, SaysWhoDoesNotAnswer) {
  auto stack = Stack::start(eal("0"), ring_options());
  ASSERT_TRUE(stack) << stack.error().text;
  End a(*stack, "uroce0");
  const auto ok = a.qp.connect({Gid::from_ipv4(0x0a750063), 17, 0}, {});
  ASSERT_FALSE(ok);
  EXPECT_EQ(ok.error().code, EHOSTUNREACH);
  EXPECT_NE(ok.error().text.find("10.117.0.99"), std::string::npos) << ok.error().text;
}

TEST(Stack, RefusesAddressesForPortsThatAreNotThere) {
  StackOptions options = ring_options();
  options.addresses = {"192.0.2.1/24", "192.0.2.2/24", "192.0.2.3/24"};
  const auto stack = Stack::start(eal("0"), options);
  ASSERT_FALSE(stack);
  EXPECT_EQ(stack.error().code, EINVAL);
}

/// A memif server in a process of its own, which begins when told to.
class MemifServer {
 public:
  explicit MemifServer(std::string device) {
    EXPECT_EQ(pipe(begin_.data()), 0);
    child_ = fork();
    if (child_ == 0) serve(device);
  }
  ~MemifServer() { end(); }
  MemifServer(const MemifServer&) = delete;
  MemifServer& operator=(const MemifServer&) = delete;

  void begin() { EXPECT_EQ(write(begin_[1], "x", 1), 1); }
  void end() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  [[noreturn]] void serve(const std::string& device) {
    char byte = 0;
    if (read(begin_[0], &byte, 1) != 1) _exit(1);
    auto args = eal("0");
    args.insert(args.end(), {"--vdev", device});
    StackOptions options;
    options.settings.max_qp = 64;
    const auto stack = Stack::start(args, options);
    if (stack) pause();
    _exit(1);
  }

  std::array<int, 2> begin_{};
  pid_t child_ = 0;
};

TEST(Stack, FindsAMemifServerThatComesBack) {
  const std::string socket = ",socket=/tmp/uroce-stack-test-" + std::to_string(getpid());
  MemifServer first("net_memif0,role=server" + socket);
  MemifServer second("net_memif0,role=server" + socket);
  first.begin();
  auto args = eal("0");
  args.insert(args.end(), {"--vdev", "net_memif0,role=client" + socket});
  StackOptions options;
  options.settings.max_qp = 64;
  auto stack = Stack::start(args, options);
  ASSERT_TRUE(stack) << stack.error().text;
  const auto becomes = [&](bool up) {
    const auto until = Clock::now() + seconds(20);
    while (Clock::now() < until) {
      for (int i = 0; i < 100; ++i) {
        if (!stack->poll()) stack->idle(microseconds(100));
      }
      if (stack->open("uroce0")->info().link_up == up) return true;
    }
    return false;
  };
  EXPECT_TRUE(becomes(true));
  first.end();
  EXPECT_TRUE(becomes(false));
  second.begin();
  EXPECT_TRUE(becomes(true));
}

TEST(Stack, SaysThatNoMemifServerListens) {
  auto args = eal("0");
  args.insert(args.end(), {"--vdev", "net_memif0,role=client,socket=/tmp/uroce-none-" + std::to_string(getpid())});
  const auto stack = Stack::start(args, {});
  ASSERT_FALSE(stack);
  EXPECT_EQ(stack.error().code, ENODEV);
  EXPECT_NE(stack.error().text.find("/tmp/uroce-none-"), std::string::npos) << stack.error().text;
  EXPECT_NE(stack.error().text.find("role=server"), std::string::npos) << stack.error().text;
}

TEST(RawRate, MovesFrames) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.frame_bytes = 64;
  options.duration = std::chrono::hours(1);
  // Each round sends a burst, and receives one; it asks once at most.
  constexpr int kRounds = 20;
  int asked = 0;
  options.stop = [&asked] { return ++asked == kRounds; };
  const auto rate = glue::run_raw(eal("0"), options);
  ASSERT_TRUE(rate) << rate.error().text;
  EXPECT_GT(rate->frames, uint64_t{kRounds});
  EXPECT_GT(rate->frames_per_second(), 0);
}

TEST(RawRate, EndsWhenAskedWithWhatThereIs) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.duration = std::chrono::hours(1);
  int asked = 0;
  options.stop = [&asked] { return ++asked == 10; };
  const auto rate = glue::run_raw(eal("0"), options);
  ASSERT_TRUE(rate) << rate.error().text;
  EXPECT_EQ(asked, 10);
  EXPECT_GT(rate->frames, 0u);
}

TEST(RawLatency, CountsRoundTrips) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.frame_bytes = 60;
  std::vector<std::chrono::nanoseconds> samples;
  const auto latency =
      glue::run_raw_latency(eal("0"), options, 1000, [&](std::chrono::nanoseconds time) { samples.push_back(time); });
  ASSERT_TRUE(latency) << latency.error().text;
  EXPECT_EQ(latency->round_trips, 1000u);
  EXPECT_EQ(latency->lost, 0u);
  ASSERT_EQ(samples.size(), 1000u);
  EXPECT_GT(*std::ranges::min_element(samples), std::chrono::nanoseconds(0));
  std::chrono::nanoseconds sum{0};
  for (const auto sample : samples) sum += sample;
  EXPECT_LE(std::chrono::duration<double>(sum).count(), latency->seconds) << "they follow each other";
}

// It was counted as lost where the process stood still for a tenth of a second behind its sending.
TEST(RawLatency, AFrameThatHasWaitedIsNotLost) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.duration = std::chrono::hours(1);
  int asked = 0;
  options.stop = [&asked] {  // between two steps, of which one sends and one receives
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    return ++asked == 20;
  };
  const auto latency = glue::run_raw_latency(eal("0"), options, 0, [](std::chrono::nanoseconds) {});
  ASSERT_TRUE(latency) << latency.error().text;
  EXPECT_GT(latency->round_trips, 0u);
  EXPECT_EQ(latency->lost, 0u);
}

TEST(RawLatency, EndsWhenAsked) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.duration = std::chrono::hours(1);
  int asked = 0;
  options.stop = [&asked] { return ++asked == 10; };
  const auto latency = glue::run_raw_latency(eal("0"), options, 0, [](std::chrono::nanoseconds) {});
  ASSERT_TRUE(latency) << latency.error().text;
  EXPECT_EQ(asked, 10);
  EXPECT_GT(latency->round_trips, 0u);
}

TEST(RawRate, RefusesFramesThatThePortDoesNotCarry) {
  glue::RawOptions options;
  options.back_to_back = true;
  options.frame_bytes = 20000;
  const auto rate = glue::run_raw(eal("0"), options);
  ASSERT_FALSE(rate);
  EXPECT_EQ(rate.error().code, EINVAL);
  EXPECT_NE(rate.error().text.find("20000"), std::string::npos);
}

}  // namespace
}  // namespace uroce
