#include "control/device_session.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

#include "world.h"

namespace uroce::control {
namespace {

using test::expect_error;
using test::World;

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    world_.add({.engines = 2, .settings = {.max_qp = 8, .max_mr = 4}});
    session_ = *DeviceSession::open(world_.device());
    other_ = *DeviceSession::open(world_.device());
    pd_ = *session_->create_pd();
    cq_ = *session_->create_cq(16, nullptr);
  }

  World world_;
  std::shared_ptr<DeviceSession> session_, other_;
  std::shared_ptr<Pd> pd_;
  std::shared_ptr<Cq> cq_;
};

TEST_F(SessionTest, DomainsAreUniqueInTheDevice) {
  const auto theirs = *other_->create_pd();
  EXPECT_NE(theirs->id(), 0u);
  EXPECT_NE(theirs->id(), pd_->id());
  EXPECT_NE((*session_->create_pd())->id(), theirs->id());
}

TEST_F(SessionTest, ObjectsOfOneSessionDoNotFitAnother) {
  const auto their_pd = *other_->create_pd();
  const auto their_cq = *other_->create_cq(16, nullptr);
  const auto their_channel = *other_->create_channel();
  const auto their_srq = *other_->create_srq(their_pd, 4, 1);
  std::byte bytes[8];
  expect_error(session_->register_memory(their_pd, 0, 8, bytes, {}), EINVAL, "protection domain");
  expect_error(session_->create_cq(16, their_channel), EINVAL, "completion channel");
  expect_error(session_->create_srq(their_pd, 4, 1), EINVAL, "protection domain");
  expect_error(session_->create_qp(their_pd, cq_, cq_, {}, nullptr), EINVAL, "protection domain");
  expect_error(session_->create_qp(pd_, their_cq, cq_, {}, nullptr), EINVAL, "completion queue");
  expect_error(session_->create_qp(pd_, cq_, their_cq, {}, nullptr), EINVAL, "completion queue");
  expect_error(session_->create_qp(pd_, cq_, cq_, {}, their_srq), EINVAL, "shared receive queue");
  expect_error(session_->create_qp(nullptr, cq_, cq_, {}, nullptr), EINVAL, "protection domain is missing");
}

/// Memory of this process; meanwhile another thread takes the device's control lock.
class BusyAllocator final : public QueueAllocator {
 public:
  explicit BusyAllocator(Device& device) : device_(device) {}
  Result<std::unique_ptr<QueueMemory>> allocate(std::size_t bytes) override {
    ++calls;
    std::thread([this] {
      const auto lock = device_.runner().lock();
      taken.release();
    }).detach();
    free_meanwhile = taken.try_acquire_for(std::chrono::seconds(10)) && free_meanwhile;
    return heap_.allocate(bytes);
  }
  int calls = 0;
  bool free_meanwhile = true;
  std::counting_semaphore<> taken{0};

 private:
  Device& device_;
  HeapAllocator heap_;
};

TEST_F(SessionTest, OthersGoOnWhileQueuesAreAllocated) {
  const auto allocator = std::make_shared<BusyAllocator>(*world_.device());
  const auto session = *DeviceSession::open(world_.device(), allocator);
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(16, nullptr);
  ASSERT_TRUE(cq->resize(32));
  const auto srq = *session->create_srq(pd, 16, 1);
  const auto qp = *session->create_qp(pd, cq, cq, {}, srq);
  EXPECT_EQ(allocator->calls, 6) << "doorbells, header and ring of a queue, its new ring, shared receives, queue pair";
  EXPECT_TRUE(allocator->free_meanwhile) << "a call waited for the lock while queues were allocated";
}

TEST_F(SessionTest, SizesOutOfRangeAreNamed) {
  expect_error(session_->create_cq(0, nullptr), EINVAL, "is 0");
  expect_error(session_->create_cq(kMaxCqe + 1, nullptr), EINVAL, std::to_string(kMaxCqe));
  expect_error(session_->create_srq(pd_, 0, 1), EINVAL, "max_wr");
  expect_error(session_->create_srq(pd_, kMaxSrqWr + 1, 1), EINVAL, "max_wr");
  expect_error(session_->create_srq(pd_, 1, kMaxSge + 1), EINVAL, "max_sge");
}

TEST_F(SessionTest, LimitsOfTheDeviceAreEnforcedAndGivenBack) {
  std::byte bytes[8];
  std::vector<std::shared_ptr<Region>> regions;
  for (int i = 0; i < 4; ++i) regions.push_back(*session_->register_memory(pd_, 0, 8, bytes, {}));
  expect_error(session_->register_memory(pd_, 0, 8, bytes, {}), ENOMEM, "max_mr");
  regions.pop_back();
  EXPECT_TRUE(session_->register_memory(pd_, 0, 8, bytes, {}).has_value());

  std::vector<std::shared_ptr<ControlQp>> qps;
  for (int i = 0; i < 8; ++i) qps.push_back(*session_->create_qp(pd_, cq_, cq_, {}, nullptr));
  expect_error(session_->create_qp(pd_, cq_, cq_, {}, nullptr), ENOMEM, "max_qp");
  qps.pop_back();
  EXPECT_TRUE(session_->create_qp(pd_, cq_, cq_, {}, nullptr).has_value());

  std::vector<std::shared_ptr<ControlSrq>> srqs;
  for (uint32_t i = 0; i < kMaxSrq; ++i) srqs.push_back(*session_->create_srq(pd_, 1, 0));
  expect_error(session_->create_srq(pd_, 1, 0), ENOMEM, "max_srq");
  srqs.pop_back();
  EXPECT_TRUE(session_->create_srq(pd_, 1, 0).has_value());
}

TEST_F(SessionTest, CompletionQueuesAreLimitedAndGivenBack) {
  std::vector<std::shared_ptr<Cq>> cqs;
  for (uint32_t i = 1; i < kMaxCq; ++i) cqs.push_back(*session_->create_cq(1, nullptr));
  expect_error(session_->create_cq(1, nullptr), ENOMEM, "max_cq");
  cqs.pop_back();
  EXPECT_TRUE(session_->create_cq(1, nullptr).has_value());
}

TEST_F(SessionTest, QueuesComeFromTheAllocator) {
  struct Counting final : QueueAllocator {
    Result<std::unique_ptr<QueueMemory>> allocate(std::size_t bytes) override {
      ++calls;
      if (calls > allowed) return fail(ENOMEM, "test: no more");
      return heap.allocate(bytes);
    }
    HeapAllocator heap;
    int calls = 0;
    int allowed = 5;
  };
  const auto allocator = std::make_shared<Counting>();
  const auto session = *DeviceSession::open(world_.device(), allocator);
  EXPECT_EQ(allocator->calls, 1);  // doorbells
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(4, nullptr);
  const auto srq = *session->create_srq(pd, 4, 1);
  const auto qp = *session->create_qp(pd, cq, cq, {}, nullptr);
  EXPECT_EQ(allocator->calls, 5);  // two of the completion queue
  expect_error(session->create_cq(4, nullptr), ENOMEM, "no more");
  expect_error(session->create_srq(pd, 4, 1), ENOMEM, "no more");
  expect_error(session->create_qp(pd, cq, cq, {}, nullptr), ENOMEM, "no more");
  allocator->allowed = 100;
  EXPECT_TRUE(session->create_qp(pd, cq, cq, {}, nullptr).has_value());
}

/// Memory of this process, counted.
struct CountingAllocator final : QueueAllocator {
  Result<std::unique_ptr<QueueMemory>> allocate(std::size_t size) override {
    bytes += size;
    return heap.allocate(size);
  }
  HeapAllocator heap;
  std::size_t bytes = 0;
};

// A ring with room for each queue pair of the device took 128 KiB of each session and engine.
TEST_F(SessionTest, DoorbellRingsGrowWithTheQueuePairs) {
  constexpr uint32_t kFew = 512;
  constexpr uint32_t kMany = 600;
  constexpr std::size_t kSmallRing = 4224, kLargeRing = 131'200;
  world_.add({.engines = 2, .settings = {.max_qp = 16384}});
  const auto allocator = std::make_shared<CountingAllocator>();
  const auto session = *DeviceSession::open(world_.device(1), allocator);
  EXPECT_EQ(allocator->bytes, 2 * kSmallRing);
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(16, nullptr);
  std::vector<std::shared_ptr<ControlQp>> qps;
  const auto add = [&](uint32_t count, int engine) {
    const std::size_t before = allocator->bytes;
    while (qps.size() < count) {
      qps.push_back(*session->create_qp(pd, cq, cq, {.cap = {1, 1, 1, 1, 0}, .engine = engine}, nullptr));
      allocator->bytes -= qps.back()->memory().size();
    }
    return allocator->bytes - before;
  };
  EXPECT_EQ(add(kFew, 1), 0u);
  EXPECT_EQ(qps.back()->doorbell_ring().large, nullptr);
  EXPECT_EQ(add(kMany, 1), kLargeRing) << "once, and for the engine that needs it";
  EXPECT_NE(qps.back()->doorbell_ring().large, nullptr);
  // All ring at once, and the engine hears each of them.
  for (const auto& qp : qps) qp->doorbell().ring(*qp->doorbell_flag(), qp->qpn());
  EXPECT_TRUE(world_.run_until(
      [&] { return std::ranges::all_of(qps, [](const auto& qp) { return qp->doorbell_flag()->rung.load() == 0; }); }));
  // Places in the small ring come back.
  qps.erase(qps.begin(), qps.begin() + 100);
  EXPECT_EQ(add(kMany, 1), 0u);
  EXPECT_EQ(qps.back()->doorbell_ring().large, nullptr);
  qps.clear();
  EXPECT_EQ(add(kMany, 1), 0u) << "the large ring stays";
}

// Rings stay behind where an engine did not reply to the end of a session.
TEST_F(SessionTest, AnEngineWithoutRoomForTheDoorbellsIsNamed) {
  constexpr uint32_t kFirst = 1000;
  transport::Engine& first = world_.device()->runner().engine(0);
  transport::Engine& second = world_.device()->runner().engine(1);
  const queues::DoorbellReader reader = session_->doorbells().small_ring(0).reader();
  const auto fill = [&](transport::Engine& engine) {
    uint32_t rings = 0;
    while (engine.attach_doorbells(reader, kFirst + rings)) ++rings;
    return rings;
  };
  const uint32_t rings = fill(second);
  ASSERT_GT(rings, 0u);
  expect_error(DeviceSession::open(world_.device()), ENOMEM, "engine 1 polls 1024 doorbell rings");
  EXPECT_EQ(fill(first), rings) << "the session that was not opened left its ring";
  expect_error(DeviceSession::open(world_.device()), ENOMEM, "engine 0 polls");
  for (uint32_t i = 0; i < rings; ++i) {
    first.detach_doorbells(kFirst + i);
    second.detach_doorbells(kFirst + i);
  }
  EXPECT_TRUE(DeviceSession::open(world_.device()).has_value());
}

}  // namespace
}  // namespace uroce::control
