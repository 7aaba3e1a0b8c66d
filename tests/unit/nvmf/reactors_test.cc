// Several reactors: whose turn it is when, and what crosses from one to another.
#include <algorithm>
#include <atomic>
#include <list>
#include <numeric>
#include <thread>
#include <utility>

#include "nvmf/mailbox.h"
#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kBlocks = 16;
constexpr uint32_t kBytes = kBlocks * 512;
constexpr int kOpens = 300;

TEST(Mailbox, TellsTheSenderThatFindsItEmpty) {
  Mailbox<int> mailbox;
  EXPECT_TRUE(mailbox.put(1));
  EXPECT_FALSE(mailbox.put(2));
  EXPECT_TRUE(mailbox.waiting());
  EXPECT_EQ(mailbox.take(), (std::vector<int>{1, 2}));
  EXPECT_FALSE(mailbox.waiting());
  EXPECT_TRUE(mailbox.put(3));
}

TEST(Mailbox, KeepsTheOrderOfEachSender) {
  constexpr uint32_t kSenders = 3, kEach = 2000;
  Mailbox<std::pair<uint32_t, uint32_t>> mailbox;
  EXPECT_FALSE(mailbox.waiting());
  std::vector<std::jthread> senders;
  for (uint32_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&mailbox, sender] {
      for (uint32_t i = 0; i < kEach; ++i) (void)mailbox.put({sender, i});
    });
  }
  std::array<uint32_t, kSenders> next{};
  for (uint32_t taken = 0; taken < kSenders * kEach;) {
    for (const auto& [sender, number] : mailbox.take()) {
      ASSERT_EQ(number, next[sender]++);
      ++taken;
    }
  }
}

class ReactorsTest : public TargetOverRdma {
 protected:
  ReactorsTest() : TargetOverRdma(8, 2) {
    order_ = {0, 1};
    serve({{.memory_bytes = 1 << 20}});
  }
  /// I/O queues 1 to `count`, each on the reactor with the fewest: the first, the second, the first ...
  void make_queues(InitiatorQueue& admin, uint16_t count, uint32_t keep_alive_ms = 0) {
    const uint16_t controller = make_controller(admin, kDisks, kHostNqn, keep_alive_ms);
    for (uint16_t id = 1; id <= count; ++id) {
      io_.emplace_back(*host_, address(), id, 16);
      ASSERT_EQ(status_of(io_.back().connect(kDisks, kHostNqn, id, controller)), Status::success);
    }
  }
  /// Each queue writes blocks of its own, and reads them back.
  void write_and_compare() {
    uint64_t first = 0;
    for (InitiatorQueue& queue : io_) {
      const auto data = queue.data();
      for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(i * 7 + first);
      EXPECT_EQ(status_of(queue.call(queue.keyed(io_command(nvme::kWrite, 1, first, kBlocks), 0, kBytes))),
                Status::success);
      EXPECT_EQ(status_of(queue.call(queue.keyed(io_command(nvme::kRead, 1, first, kBlocks), kBytes, kBytes))),
                Status::success);
      EXPECT_TRUE(std::ranges::equal(data.first(kBytes), data.subspan(kBytes, kBytes)));
      first += kBlocks;
    }
  }
  void run_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
      host_->progress();
    }
  }
  void expect_loads(std::vector<uint32_t> loads) {
    run_until([&] { return reactors_->connections().loads() == loads; });
  }

  uint32_t wakes(uint32_t reactor) const { return network().wakes(reactor); }
  const InProcessNetwork& network() const { return static_cast<const InProcessNetwork&>(*network_); }

  std::list<InitiatorQueue> io_;
};

TEST_F(ReactorsTest, ServeTheirQueuesInAnyOrderOfTurns) {
  uint64_t rounds = 0;
  for (const auto& order : {std::vector<uint32_t>{0, 1}, {1, 0}, {0, 0, 0, 1}, {1, 1, 0}}) {
    order_ = order;
    InitiatorQueue admin = queue(0);
    make_queues(admin, 4);
    EXPECT_EQ(reactors_->connections().loads(), (std::vector<uint32_t>{2, 2}));
    write_and_compare();
    ++rounds;
    for (uint32_t index = 0; index < 2; ++index) {
      const QueueCounters& counters = reactors_->counters(index);
      EXPECT_EQ(counters.queues.get(), 2 * rounds);
      EXPECT_EQ(counters.commands.get(), (1 + 2) * 2 * rounds);
      EXPECT_EQ(counters.bytes_written.get(), 2 * kBytes * rounds);
      EXPECT_EQ(counters.bytes_read.get(), 2 * kBytes * rounds);
    }
    io_.pop_front();
    expect_loads({1, 2});
    io_.clear();
    expect_loads({0, 0});
  }
}

TEST_F(ReactorsTest, AReactorThatPausesDelaysItsOwnQueuesOnly) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 2);
  order_ = {0};
  InitiatorQueue& other = io_.back();
  const uint16_t waiting = other.submit(io_command(nvme::kFlush, 1));
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(status_of(io_.front().call(io_command(nvme::kFlush, 1))), Status::success);
    ASSERT_EQ(status_of(admin.call(admin_command(nvme::kKeepAlive))), Status::success);
  }
  // Only commands that wait for an event can be aborted, and this one is another reactor's.
  EXPECT_EQ(admin.call(admin_command(nvme::kAbort, 0, uint32_t{waiting} << 16 | 2)).result, 1u);
  EXPECT_FALSE(other.poll());
  order_ = {0, 1};
  const auto response = other.next();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->command_id, waiting);
}

TEST_F(ReactorsTest, EventRequestsWaitWhileOtherReactorsWork) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 2);
  const uint16_t held = admin.submit(admin_command(nvme::kAsyncEventRequest));
  write_and_compare();
  EXPECT_FALSE(admin.poll());
  (void)admin.submit(admin_command(nvme::kAbort, 0, uint32_t{held} << 16));
  const auto aborted = admin.next();
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->command_id, held);
  EXPECT_EQ(status_of(*aborted), Status::aborted);
}

TEST_F(ReactorsTest, AControllersQueuesEndTogether) {
  {
    InitiatorQueue admin = queue(0);
    make_queues(admin, 4);
  }
  step_ = 1ms;
  for (InitiatorQueue& queue : io_) EXPECT_FALSE(queue.next());
  expect_loads({0, 0});
}

TEST_F(ReactorsTest, ASilentHostLosesItsQueuesOnAllReactors) {
  step_ = 100ns;  // so that passes alone do not make up the timeout
  InitiatorQueue admin = queue(0);
  make_queues(admin, 2, 1000);
  // A command on any reactor's queue restarts the timer.
  for (int i = 0; i < 6; ++i) {
    now_ += 900ms;
    ASSERT_EQ(status_of((i % 2 == 0 ? io_.front() : io_.back()).call(io_command(nvme::kFlush, 1))), Status::success);
  }
  now_ += 3s;
  step_ = 1ms;
  EXPECT_FALSE(admin.next());
  for (InitiatorQueue& queue : io_) EXPECT_FALSE(queue.next());
  expect_loads({0, 0});
}

TEST_F(ReactorsTest, AnEndingTargetEndsQueuesOfAllReactors) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 4);
  reactors_->close();
  EXPECT_FALSE(admin.next());
  for (InitiatorQueue& queue : io_) EXPECT_FALSE(queue.next());
  run_until([&] { return reactors_->connections().queues() == 0; });
}

// Close overtakes the answer to Open.
TEST_F(ReactorsTest, AQueueThatIsStillBeingMadeCanEnd) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 1);
  order_ = {0};
  after_pass_ = [&] {
    if (reactors_->connections().queues() < 3) return;
    after_pass_ = nullptr;
    reactors_->close();
    order_ = {0, 1};
  };
  EXPECT_THROW(queue(2), std::runtime_error);
  run_until([&] { return reactors_->connections().queues() == 0; });
}

TEST_F(ReactorsTest, OrdersAndReportsWakeTheOtherReactor) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 1);
  EXPECT_EQ(wakes(0), 0u) << "the first reactor's own queues";
  EXPECT_EQ(wakes(1), 0u);
  order_ = {0};
  after_pass_ = [&] {
    if (reactors_->connections().loads()[1] == 0) return;
    EXPECT_EQ(wakes(1), 1u);  // Open
    EXPECT_EQ(wakes(0), 0u);
    order_ = {0, 1};
    after_pass_ = nullptr;
  };
  {
    const InitiatorQueue second = queue(2);
    EXPECT_EQ(wakes(0), 1u);  // Opened
  }
  expect_loads({1, 0});
  EXPECT_EQ(wakes(1), 2u);  // Close
  EXPECT_EQ(wakes(0), 2u);  // Ended
  write_and_compare();
  EXPECT_EQ(wakes(0) + wakes(1), 4u) << "no command wakes anybody";
}

// The second one sleeps until it is woken, so an order that does not wake it is never obeyed.
TEST_F(ReactorsTest, NoOrderOfManyIsLost) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 3);
  io_.erase(std::next(io_.begin()));
  expect_loads({2, 0});
  order_ = {0};
  step_ = 1ms;
  std::jthread second([&](const std::stop_token& stop) {
    const std::stop_callback end(stop, [&] { network_->wake(1); });
    for (;;) {
      const uint32_t before = wakes(1);
      if (stop.stop_requested()) return;
      if (!reactors_->poll(1, Nanos(0))) network().sleep(1, before);
    }
  });
  for (int i = 0; i < kOpens; ++i) {
    (void)queue(2);
    if (i % 2 == 0) expect_loads({2, 0});  // else the next one may overtake its end
  }
  expect_loads({2, 0});
  EXPECT_EQ(reactors_->connections().queues(), 3u);
  EXPECT_EQ(reactors_->counters(1).queues.get(), uint64_t{kOpens} + 1);
}

// Its thread has ended, or never began. The target ends all the same, and the host hears of it.
TEST_F(ReactorsTest, AnOrderForAReactorThatHasEndedHoldsNobodyUp) {
  std::list<InitiatorQueue> before;
  for (uint16_t id : {1, 2}) before.emplace_back(*host_, address(), id, 16);
  order_ = {0};
  before.pop_back();
  after_pass_ = [&] {
    if (reactors_->connections().queues() < 3) return;
    after_pass_ = nullptr;
    reactors_->close();
    order_.clear();
    reactors_.reset();
  };
  EXPECT_THROW(queue(3), std::runtime_error);
  EXPECT_FALSE(before.front().next());
}

TEST_F(ReactorsTest, RunOnThreadsOfTheirOwn) {
  order_ = {0};
  step_ = 1us;
  std::atomic<Nanos> clock{Nanos(0)};
  after_pass_ = [&] { clock = now_; };
  std::jthread second([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!reactors_->poll(1, clock)) std::this_thread::yield();
    }
  });
  for (int i = 0; i < 3; ++i) {
    io_.clear();
    InitiatorQueue admin = queue(0);
    make_queues(admin, 4, i == 2 ? 60000 : 0);
    for (int round = 0; round < 5; ++round) write_and_compare();
    // The queues first, the controller first, or the host says nothing more.
    if (i == 0) io_.clear();
    if (i == 2) {
      now_ += 120s;
      EXPECT_FALSE(admin.next());
    }
  }
  step_ = 1ms;
  for (InitiatorQueue& queue : io_) EXPECT_FALSE(queue.next());
  expect_loads({0, 0});
  reactors_->close();
  run_until([&] { return reactors_->connections().queues() == 0; });
}

// The queue pair's move to RTR waited up to 3 s for a host that had gone, and all queues with it.
TEST_F(ReactorsTest, AHostThatDoesNotAnswerDelaysNobody) {
  InitiatorQueue admin = queue(0);
  make_queues(admin, 2);
  world_.port(1).unanswered = true;
  int served = 0;
  after_pass_ = [&] {
    if (world_.port(1).resolves == 0 || served > 0) return;
    served = 1;  // the calls below come by here
    for (; served < 100; ++served) {
      for (InitiatorQueue& queue : io_) ASSERT_EQ(status_of(queue.call(io_command(nvme::kFlush, 1))), Status::success);
    }
    EXPECT_EQ(reactors_->connections().queues(), 3u);
    world_.port(1).unanswered = false;
  };
  const int before = world_.port(1).resolves.exchange(0);
  InitiatorQueue late = queue(0);
  EXPECT_GT(before, 0);
  EXPECT_EQ(served, 100);
  EXPECT_EQ(world_.port(1).waits, 0);
  (void)make_controller(late, kDisks, kHostNqn);
}

}  // namespace
}  // namespace uroce::nvmf
