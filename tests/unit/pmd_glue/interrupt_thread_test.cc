#include "pmd_glue/interrupt_thread.h"

#include <gtest/gtest.h>
#include <rte_alarm.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <thread>

namespace uroce::glue {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Holds EAL's interrupt thread in a handler until told to go on.
class Stuck {
 public:
  Stuck() {
    EXPECT_EQ(rte_eal_alarm_set(1, hold, this), 0);
    EXPECT_TRUE(held_.try_acquire_for(seconds(20)));
  }
  void go_on() {
    go_on_.release();
    EXPECT_TRUE(ended_.try_acquire_for(seconds(20)));
  }

 private:
  static void hold(void* argument) {
    auto* own = static_cast<Stuck*>(argument);
    own->held_.release();
    own->go_on_.acquire();
    own->ended_.release();
  }
  std::binary_semaphore held_{0}, go_on_{0}, ended_{0};
};

TEST(InterruptThread, RunsWorkElsewhereAndReturnsWhatItReturned) {
  std::thread::id ran{};
  EXPECT_EQ(on_interrupt_thread([&] {
              ran = std::this_thread::get_id();
              return -17;
            }),
            -17);
  EXPECT_NE(ran, std::thread::id{});
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(InterruptThread, WorkThatDidNotBeginInTimeNeverRuns) {
  const auto runs = std::make_shared<std::atomic<int>>(0);
  Stuck stuck;
  EXPECT_EQ(on_interrupt_thread([runs] { return ++*runs; }, milliseconds(50)), std::nullopt);
  stuck.go_on();
  EXPECT_EQ(on_interrupt_thread([] { return 1; }), 1) << "comes after the work that was given up";
  EXPECT_EQ(*runs, 0);
  EXPECT_EQ(runs.use_count(), 1) << "what it owned is gone";
}

TEST(InterruptThread, WorkThatBeganGoesOnWithWhatItOwns) {
  struct Shared {
    std::binary_semaphore go_on{0};
    std::atomic<bool> begun{false}, ended{false};
  };
  std::shared_ptr<Shared> shared;
  // Until the work begins within the time: on a busy machine its thread may come late.
  for (milliseconds limit(50); (!shared || !shared->begun) && limit < seconds(20); limit *= 2) {
    shared = std::make_shared<Shared>();
    EXPECT_EQ(on_interrupt_thread(
                  [shared] {
                    shared->begun = true;
                    shared->go_on.acquire();
                    shared->ended = true;
                    return 0;
                  },
                  limit),
              std::nullopt);
  }
  EXPECT_FALSE(shared->ended);
  shared->go_on.release();
  EXPECT_EQ(on_interrupt_thread([] { return 1; }), 1);
  EXPECT_TRUE(shared->ended);
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
}  // namespace uroce::glue
