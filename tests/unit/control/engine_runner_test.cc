#include "control/engine_runner.h"

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/frame_capture.h"

namespace uroce::control {
namespace {

using namespace std::chrono_literals;

struct NoEvents final : transport::EngineEvents {
  void on_completion_event(uint32_t) override {}
  void on_async_event(AsyncEventType, uint32_t) override {}
  void on_wrong_key(const Gid&, uint32_t) override {}
  void on_end(const transport::QpEnd&) override {}
};

struct Sink final : test::FrameCapture {
  bool references_payload() override { return references; }
  bool references = false;
};

/// Polls its engines from wait_step(), unless told to play dead.
struct Host final : DeviceHost {
  void wake(uint32_t) override { ++wakes; }
  void wait_step() override {
    ++steps;
    if (steps == release_payload_at) sink.references = false;
    if (!frozen) poll();
  }
  void poll() {
    for (uint32_t i = 0; i < runner->count(); ++i) runner->engine(i).poll(sink, now += 1us);
  }
  bool run_in_place(uint32_t, const std::function<void(Nanos)>& work) override {
    if (asleep) work(now += 1us);
    return asleep;
  }
  std::optional<EthAddr> next_hop(const Gid&) override { return std::nullopt; }
  void join_group(const Gid&) override {}
  void leave_group(const Gid&) override {}
  Result<EthAddr> resolve(const Gid&, const Gid&, uint32_t, std::chrono::nanoseconds) override { return EthAddr{}; }
  Result<Gid> source_for(const Gid&) override { return Gid{}; }
  bool link_up() const override { return true; }
  Nanos clock() const override { return now; }
  Result<int> wake_descriptor(uint32_t) override { return fail(EMFILE, "no descriptor in this test"); }

  EngineRunner* runner = nullptr;
  Sink sink;
  Nanos now{0};
  bool frozen = false;
  bool asleep = false;
  std::atomic<int> wakes{0};
  int steps = 0;
  int release_payload_at = -1;
};

class EngineRunnerTest : public testing::Test {
 protected:
  EngineRunnerTest() {
    host_.runner = &runner_;
    for (uint32_t i = 0; i < 2; ++i) {
      runner_.add(std::make_unique<transport::Engine>(
          transport::EngineConfig{.index = i, .index_bits = 1, .max_qps = 16}, regions_, events_));
    }
  }

  Host host_;
  memory::RegionTable regions_{16, 1};
  NoEvents events_;
  EngineRunner runner_{host_, "uroce0", 300ms};  // long enough for a busy machine
};

TEST_F(EngineRunnerTest, RunsWorkOnTheEngineThatWasNamed) {
  const auto lock = runner_.lock();
  uint32_t index = 99;
  ASSERT_TRUE(runner_.run(1, [&](transport::Engine& engine) { index = engine.config().index; }).has_value());
  EXPECT_EQ(index, 1u);
  EXPECT_GT(host_.wakes, 0);
}

TEST_F(EngineRunnerTest, WorksInPlaceOfAnEngineThatSleepsAndLetsItSleep) {
  const auto lock = runner_.lock();
  host_.asleep = true;
  std::vector<int> order;
  const auto task = std::make_shared<transport::Task>([&](transport::Engine&) { order.push_back(1); });
  ASSERT_TRUE(runner_.engine(1).submit(task));
  ASSERT_TRUE(runner_.run(1, [&](transport::Engine&) { order.push_back(2); }).has_value());
  EXPECT_EQ(order, (std::vector{1, 2})) << "tasks that wait come first";
  EXPECT_EQ(host_.wakes, 0);
  EXPECT_EQ(host_.steps, 0);
}

TEST_F(EngineRunnerTest, WakesAnEngineThatHasWorkAfterwards) {
  const auto lock = runner_.lock();
  host_.asleep = true;
  const auto more = std::make_shared<transport::Task>([](transport::Engine&) {});
  ASSERT_TRUE(runner_.run(0, [&](transport::Engine& engine) { engine.submit(more); }).has_value());
  EXPECT_EQ(host_.wakes, 1);
}

TEST_F(EngineRunnerTest, GivesUpOnADeadEngineAndTheWorkNeverRuns) {
  const auto lock = runner_.lock();
  host_.frozen = true;
  bool ran = false;
  const auto result = runner_.run(1, [&](transport::Engine&) { ran = true; });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ETIMEDOUT);
  EXPECT_NE(result.error().text.find("engine 1 of uroce0"), std::string::npos) << result.error().text;
  host_.frozen = false;
  host_.poll();
  EXPECT_FALSE(ran);
}

TEST_F(EngineRunnerTest, GivesUpWhenTheTaskQueueStaysFull) {
  const auto lock = runner_.lock();
  host_.frozen = true;
  auto idle = std::make_shared<transport::Task>([](transport::Engine&) {});
  while (runner_.engine(0).submit(idle)) {
  }
  const auto result = runner_.run(0, [](transport::Engine&) {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ETIMEDOUT);
}

TEST_F(EngineRunnerTest, QuiesceWaitsForTheSinkToLetGo) {
  host_.sink.references = true;
  host_.release_payload_at = 20;
  EXPECT_TRUE(runner_.quiesce().has_value());
  EXPECT_GE(host_.steps, 20);
}

TEST_F(EngineRunnerTest, QuiesceGivesUpOnAStuckPort) {
  host_.sink.references = true;
  auto result = runner_.quiesce();
  // On a busy machine the engine's thread may have no core for so long.
  for (int tries = 0; tries < 20 && !result && result.error().text.contains("did not answer"); ++tries) {
    result = runner_.quiesce();
  }
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ETIMEDOUT);
  EXPECT_NE(result.error().text.find("payload"), std::string::npos) << result.error().text;
}

TEST_F(EngineRunnerTest, AfterStopWorkRunsHereAndWakesNoEngine) {
  host_.frozen = true;
  runner_.stop();
  const int wakes = host_.wakes;
  const auto lock = runner_.lock();
  bool ran = false;
  ASSERT_TRUE(runner_.run(0, [&](transport::Engine&) { ran = true; }).has_value());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(runner_.quiesce().has_value());
  runner_.wake(0);
  EXPECT_EQ(host_.wakes, wakes);
}

TEST_F(EngineRunnerTest, WaitingForTheLockKeepsTheEnginesRunning) {
  // Another thread holds the lock and needs an engine, which only this thread polls.
  std::atomic<bool> locked{false};
  host_.frozen = true;  // the other thread's own wait steps must not help
  std::atomic<bool> ran{false};
  std::thread other([&] {
    const auto lock = runner_.lock();
    const auto task = std::make_shared<transport::Task>([&](transport::Engine&) { ran = true; });
    runner_.engine(0).submit(task);
    locked = true;
    while (!task->done()) std::this_thread::yield();
  });
  while (!locked) std::this_thread::yield();
  host_.frozen = false;
  {
    const auto lock = runner_.lock();
  }
  other.join();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace uroce::control
