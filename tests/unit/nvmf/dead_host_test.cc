// Hosts that vanish without a word, and those that take too much: what they hold, and for how long.
#include <algorithm>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

using namespace std::chrono_literals;

class DeadHost : public TargetOverRdma {
 protected:
  explicit DeadHost(const ListenSettings& listen = {}) { serve({{.memory_bytes = 4 << 20}}, listen); }

  /// The host says nothing more, until this ends: calls of the test need its device again.
  struct Silence {
    explicit Silence(test::Port& of) : port(of) { port.frozen = true; }
    ~Silence() { port.frozen = false; }
    Silence(const Silence&) = delete;
    test::Port& port;
  };

  /// An I/O queue with its admin queue.
  struct Queues {
    Queues(test::InitiatorHost& host, const CmAddress& target) : admin(host, target, 0, 16), io(host, target, 1, 16) {
      const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
      EXPECT_EQ(status_of(io.connect(kDisks, kHostNqn, 1, controller)), Status::success);
    }
    Status move(uint8_t opcode) { return status_of(io.call(large(opcode))); }
    nvme::Command large(uint8_t opcode) { return io.keyed(io_command(opcode, 1, 0, 256), 0, kTransferBytes); }
    InitiatorQueue admin, io;
  };

  /// Sends WRITEs that want all buffers, and vanishes before the target READs their data.
  Silence vanish(Queues& dead) {
    constexpr uint32_t kWrites = 15;
    const uint32_t before = dead.io.delivered();
    for (uint32_t i = 0; i < kWrites; ++i) (void)dead.io.submit(dead.large(nvme::kWrite));
    EXPECT_TRUE(world_.run_until([&] {
      EXPECT_FALSE(dead.io.poll().has_value());
      return dead.io.delivered() >= before + kWrites;
    }));
    return Silence(world_.port(0));
  }
  /// Until the target has as many queues. Its clock and its device's go on by `step` in each pass.
  void run_until_queues(std::size_t count, Nanos step) {
    const auto limit = std::chrono::steady_clock::now() + 100s;
    while (reactors_->connections().queues() != count) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << reactors_->connections().queues() << " queues";
      now_ += step;
      ahead_ = ahead_.load() + step;
      pass();
      std::this_thread::sleep_for(200us);
    }
  }
};

TEST_F(DeadHost, LeavesBuffersToOthers) {
  const auto other = daemon_host(2);
  Queues dead(*host_, address()), alive(*other, address());
  const Silence silence = vanish(dead);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(alive.move(nvme::kWrite), Status::success);
    EXPECT_EQ(alive.move(nvme::kRead), Status::success);
  }
}

TEST_F(DeadHost, CannotAskForPatienceWithoutEnd) {
  for (const uint8_t code : {0, 31}) {
    host_->ack_timeout = code;
    {
      Queues dead(*host_, address());
      const Silence silence = vanish(dead);
      run_until_queues(1, 20ms);
    }
    run_until_queues(0, 0ms);
  }
}

// Neither has a keep alive timeout, and nothing is outstanding.
TEST_F(DeadHost, IsFoundOutWithoutKeepAlive) {
  const auto other = daemon_host(2);
  Queues dead(*host_, address()), alive(*other, address());
  const Silence silence(world_.port(0));
  run_until_queues(2, 10ms);
  EXPECT_GT(now_, 30s);
  for (int i = 0; i < 3; ++i) {
    now_ += 31s;
    pass();  // probes the other one, which acknowledges it
    EXPECT_EQ(status_of(alive.admin.call(admin_command(nvme::kKeepAlive))), Status::success);
  }
  EXPECT_EQ(alive.move(nvme::kRead), Status::success);
}

class HostWithoutConnect : public DeadHost {
 protected:
  HostWithoutConnect() : DeadHost(ListenSettings{.max_queues = 64}) {}
};

TEST_F(HostWithoutConnect, HasAPartOfTheQueues) {
  step_ = 1us;  // so that passes alone do not end those that never send a Connect
  const auto other = daemon_host(2);
  constexpr uint32_t kMost = kIoQueues + 1;
  Queues first(*host_, address());
  now_ += 1s;  // these two count no more
  std::list<InitiatorQueue> begun;
  for (uint32_t i = 0; i < kMost; ++i) begun.emplace_back(*host_, address(), 1, 2);
  try {
    InitiatorQueue one_more(*host_, address(), 1, 2);
    ADD_FAILURE() << "accepted";
  } catch (const test::Rejected& rejected) {
    EXPECT_EQ(static_cast<nvme::CmStatus>(rejected.status), nvme::CmStatus::no_resources);
  }
  Queues alive(*other, address());
  begun.pop_back();
  run_until_queues(2 + kMost - 1 + 2, 0ns);
  begun.emplace_back(*host_, address(), 0, 16);
  EXPECT_EQ(status_of(begun.back().connect(nvme::kDiscoveryNqn, kHostNqn, 0)), Status::success);
  now_ += 200ms;
  pass();
  pass();
  InitiatorQueue instead(*host_, address(), 1, 2);
}

TEST_F(DeadHost, LosesItsDiscoveryControllerAfterTwoMinutes) {
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, nvme::kDiscoveryNqn, kHostNqn);
  now_ += 119s;
  EXPECT_EQ(status_of(admin.call(admin_command(nvme::kKeepAlive))), Status::success);
  now_ += 119s;
  EXPECT_EQ(status_of(admin.call(admin_command(nvme::kKeepAlive))), Status::success);
  now_ += 121s;
  EXPECT_FALSE(admin.next().has_value());
}

TEST_F(DeadHost, IsDisconnectedAlsoWhenItsRtuWasLost) {
  host_->rtu = false;
  InitiatorQueue admin = queue(0);
  (void)make_controller(admin, nvme::kDiscoveryNqn, kHostNqn);
  now_ += 121s;
  EXPECT_FALSE(admin.next().has_value());
  ASSERT_EQ(host_->gone.size(), 1u);
  EXPECT_EQ(host_->gone.begin()->second, CmEventType::disconnected);
}

}  // namespace
}  // namespace uroce::nvmf
