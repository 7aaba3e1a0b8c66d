// Strangers that take all they can get of the target: what is left for the hosts that a `hosts` list names.
#include <list>
#include <string>

#include "target_over_rdma.h"

namespace uroce::nvmf {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kMaxQueues = 16;
constexpr uint32_t k49Days = UINT32_MAX;  // in ms

class Strangers : public TargetOverRdma {
 protected:
  Strangers() {
    serve({{.memory_bytes = 1 << 20}}, {.max_queues = kMaxQueues});
    step_ = 1us;  // so that passes alone do not end queues that wait for Connect
  }

  /// Connections of the stranger's until the target refuses another, at most so many.
  void open_all(uint16_t queue_id, uint32_t most = 4 * kMaxQueues) {
    try {
      for (uint32_t i = 0; i < most; ++i) held_.emplace_back(*stranger_, address(), queue_id, 4);
    } catch (const test::Rejected& rejected) {
      EXPECT_EQ(static_cast<nvme::CmStatus>(rejected.status), nvme::CmStatus::no_resources);
    }
  }
  /// Discovery controllers, each for an NQN of its own. Returns how many there are.
  uint32_t discover_all(uint32_t keep_alive_ms) {
    uint32_t made = 0;
    for (InitiatorQueue& queue : held_) {
      const std::string nqn = "nqn.2024-01.org.example:stranger" + std::to_string(made);
      const auto status =
          status_of(queue.connect(nvme::kDiscoveryNqn, nqn, 0, nvme::kDynamicController, keep_alive_ms));
      if (status == Status::success) ++made;
      statuses_.push_back(static_cast<uint16_t>(status));
    }
    now_ += 200ms;  // the connections hear of it
    for (int i = 0; i < 3; ++i) pass();
    return made;
  }
  void expect_service() {
    InitiatorQueue admin = queue(0);
    const uint16_t controller = make_controller(admin, kDisks, kHostNqn);
    std::list<InitiatorQueue> io;
    for (uint16_t id = 1; id <= 4; ++id) io.emplace_back(*host_, address(), id, 4);
    for (uint16_t id = 1; InitiatorQueue & one : io) {
      ASSERT_EQ(status_of(one.connect(kDisks, kHostNqn, id++, controller)), Status::success);
      EXPECT_EQ(status_of(one.call(io_command(nvme::kFlush, 1))), Status::success);
    }
  }

  std::unique_ptr<test::InitiatorHost> stranger_ = daemon_host(2);
  std::list<InitiatorQueue> held_;
  std::vector<uint16_t> statuses_;
};

TEST_F(Strangers, CannotTakeAllQueuesWithDiscoveryControllers) {
  open_all(0);
  EXPECT_LT(discover_all(60'000), kMaxQueues / 4);
  EXPECT_EQ(statuses_.back(), 0x181) << "busy: another try may succeed";
  expect_service();
}

TEST_F(Strangers, CannotStayForWeeksInSilence) {
  open_all(0, 1);
  EXPECT_EQ(discover_all(k49Days), 0u);
  EXPECT_EQ(statuses_.back(), 0x1a);
  EXPECT_EQ(discover_all(600'000), 1u) << "the longest";
  nvme::Command longer = admin_command(nvme::kSetFeatures, 0, nvme::kKeepAliveTimer, k49Days);
  InitiatorQueue& admin = held_.front();
  (void)admin.call(property_set(nvme::kCc, 0x460001));
  EXPECT_EQ(static_cast<uint16_t>(status_of(admin.call(longer))), 0x1a);
  now_ += 602s;
  EXPECT_FALSE(admin.next().has_value());
}

TEST_F(Strangers, CannotTakeAllQueuesWithoutConnect) {
  open_all(1);
  EXPECT_GE(held_.size(), kMaxQueues);
  expect_service();
}

TEST_F(Strangers, LeaveRoomAlsoWithBoth) {
  open_all(0);
  (void)discover_all(60'000);
  open_all(1);
  for (int i = 0; i < 3; ++i) expect_service();
}

}  // namespace
}  // namespace uroce::nvmf
