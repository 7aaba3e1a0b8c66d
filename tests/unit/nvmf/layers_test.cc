// The layers below the transport, each alone: capsules, I/O commands, controllers, buffers.
#include <algorithm>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "must.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/capsule.h"
#include "nvmf/controller.h"
#include "nvmf/io_command.h"

namespace uroce::nvmf {
namespace {

using nvme::Status;
using namespace std::chrono_literals;

constexpr char kNqn[] = "nqn.2024-01.org.example:disks";

Subsystem disks() {
  std::vector<NamespaceSettings> namespaces;
  namespaces.push_back({.memory_bytes = 1 << 20});
  return must(open_subsystem({.nqn = kNqn, .namespaces = std::move(namespaces)}));
}

TEST(Capsule, IsAnEntryAndItsData) {
  std::array<std::byte, 64> bytes{};
  EXPECT_FALSE(command_of(std::span(bytes).first(63)).has_value());
  bytes[0] = std::byte{nvme::kWrite};
  bytes[1] = std::byte{nvme::kPsdtSgl};
  bytes[39] = std::byte{nvme::kSglOffset};
  bytes[24] = std::byte{16};  // offset
  bytes[32] = std::byte{100};
  const auto command = command_of(bytes);
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(transfer_of(*command, 115).error(), Status::sgl_length_invalid);
  const auto transfer = transfer_of(*command, 116);
  ASSERT_TRUE(transfer.has_value());
  EXPECT_EQ(transfer->kind, Transfer::Kind::in_capsule);
  EXPECT_EQ(transfer->address, 16u);
  EXPECT_EQ(transfer->length, 100u);
}

TEST(Capsule, TellsWhichWayDataGoes) {
  nvme::Command command{};
  command.opcode = nvme::kFabrics;
  command.nsid = nvme::kConnect;
  EXPECT_EQ(direction_of(command), Direction::from_host);
  command.nsid = nvme::kPropertyGet;
  EXPECT_EQ(direction_of(command), Direction::none);
  command.opcode = nvme::kIdentify;
  EXPECT_EQ(direction_of(command), Direction::to_host);
}

TEST(IoCommand, EndsWithTheNamespace) {
  const Subsystem subsystem = disks();
  nvme::Command command{};
  command.opcode = nvme::kRead;
  command.nsid = 1;
  command.cdw10 = 2047;
  const auto last = plan_io(command, subsystem);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->offset, 2047u * 512);
  EXPECT_EQ(last->length, 512u);
  command.cdw12 = 1;
  EXPECT_EQ(plan_io(command, subsystem).error(), Status::lba_out_of_range);
  command.cdw11 = 0xffffffff;
  EXPECT_EQ(plan_io(command, subsystem).error(), Status::lba_out_of_range);
  command.nsid = nvme::kAllNamespaces;
  EXPECT_EQ(plan_io(command, subsystem).error(), Status::invalid_namespace);
  command.opcode = nvme::kFlush;
  EXPECT_TRUE(plan_io(command, subsystem).has_value()) << "the only namespace";
}

TEST(Controller, FollowsItsConfiguration) {
  const Subsystem subsystem = disks();
  Controller controller(3, subsystem, {.nqn = kNqn}, 0, Nanos(0));
  EXPECT_FALSE(controller.ready());
  (void)controller.property_set(0, nvme::kCc, 0x460001);
  EXPECT_TRUE(controller.ready());
  (void)controller.property_set(0, nvme::kCc, 0x464001);  // a normal shutdown
  EXPECT_EQ(controller.property_get(0, nvme::kCsts).result, nvme::kCstsReady | nvme::kCstsShutdownComplete);
  (void)controller.property_set(0, nvme::kCc, 0x460000);
  EXPECT_FALSE(controller.ready());
  (void)controller.property_set(0, nvme::kCc, 0x460081);  // memory pages of 8 KiB
  EXPECT_EQ(controller.property_get(0, nvme::kCsts).result, nvme::kCstsFatal);
  EXPECT_EQ(controller.property_get(1, nvme::kVs).status, Status::invalid_field) << "of another size";
  EXPECT_EQ(controller.property_get(0, 0x1000).status, Status::invalid_field);
  EXPECT_EQ(controller.property_set(0, nvme::kCsts, 0).status, Status::invalid_field);
}

TEST(Controller, GrantsQueuesOnce) {
  const Subsystem subsystem = disks();
  Controller controller(3, subsystem, {.nqn = kNqn}, 0, Nanos(0));
  nvme::Command command{};
  command.opcode = nvme::kSetFeatures;
  command.cdw10 = nvme::kNumberOfQueues;
  command.cdw11 = 999 << 16 | 999;
  EXPECT_EQ(controller.admin(command, {}, nullptr).result, (kIoQueues - 1) << 16 | (kIoQueues - 1));
  command.cdw11 = 3 << 16 | 1;
  EXPECT_EQ(controller.admin(command, {}, nullptr).result, 1u << 16 | 1);
  EXPECT_TRUE(controller.join(2));
  EXPECT_FALSE(controller.join(2));
  EXPECT_FALSE(controller.join(3));
  EXPECT_FALSE(controller.join(0));
  EXPECT_EQ(controller.admin(command, {}, nullptr).status, Status::command_sequence_error);
}

TEST(Controller, ResetEndsQueuesAndEventRequests) {
  const Subsystem subsystem = disks();
  Controller controller(3, subsystem, {.nqn = kNqn}, 0, Nanos(0));
  (void)controller.property_set(0, nvme::kCc, 0x460001);
  nvme::Command event{}, feature{};
  event.opcode = nvme::kAsyncEventRequest;
  feature.opcode = nvme::kSetFeatures;
  feature.cdw10 = nvme::kNumberOfQueues;
  for (uint32_t i = 0; i < kAsyncEvents; ++i) EXPECT_TRUE(controller.admin(event, {}, nullptr).held);
  (void)controller.admin(feature, {}, nullptr);
  const auto old = controller.join(1);
  ASSERT_TRUE(old.has_value());
  EXPECT_TRUE(controller.ready(*old));
  (void)controller.property_set(0, nvme::kCc, 0x460001);
  EXPECT_TRUE(controller.ready(*old)) << "not a reset";

  (void)controller.property_set(0, nvme::kCc, 0x460000);
  EXPECT_EQ(controller.events_held(), 0u);
  (void)controller.property_set(0, nvme::kCc, 0x460001);
  EXPECT_TRUE(controller.ready());
  EXPECT_FALSE(controller.ready(*old));
  EXPECT_TRUE(controller.admin(event, {}, nullptr).held);
  EXPECT_EQ(controller.admin(feature, {}, nullptr).status, Status::success) << "no queue has joined yet";
  const auto young = controller.join(1);
  ASSERT_TRUE(young.has_value());
  EXPECT_TRUE(controller.ready(*young));
  controller.leave(1, *old);
  EXPECT_FALSE(controller.join(1).has_value()) << "the old queue does not take the new one's place away";
  controller.leave(1, *young);
  EXPECT_TRUE(controller.join(1).has_value());
}

TEST(Controller, ExpiresWithoutTheHost) {
  const Subsystem subsystem = disks();
  Controller controller(3, subsystem, {.nqn = kNqn}, 5000, 10s);
  EXPECT_FALSE(controller.expired(16s));
  controller.heard(16s);
  EXPECT_FALSE(controller.expired(22s));
  EXPECT_TRUE(controller.expired(22001ms));
  EXPECT_FALSE(controller.ready());
}

TEST(Controller, WithoutKeepAliveOnlyDiscoveryExpires) {
  const Subsystem subsystem = disks(), asked = discovery_subsystem();
  Controller io(3, subsystem, {.nqn = kNqn}, 0, 10s), discovery(4, asked, {.nqn = kNqn}, 0, 10s);
  EXPECT_FALSE(io.expired(240h));
  EXPECT_EQ(io.silence(240h), 240h - 10s);
  EXPECT_FALSE(discovery.expired(130s));
  discovery.heard(20s);
  EXPECT_FALSE(discovery.expired(140s));
  EXPECT_TRUE(discovery.expired(140001ms));
}

struct Waiter final : BufferPool::Waiter {
  void buffer_ready(std::byte* buffer) override {
    got = buffer;
    if (then) then();
  }
  std::byte* got = nullptr;
  std::function<void()> then{};
};

std::vector<std::byte*> take_all(BufferPool& pool, BufferPool::Share& share) {
  std::vector<std::byte*> taken;
  while (std::byte* const one = pool.take(share)) taken.push_back(one);
  return taken;
}

TEST(BufferPool, ServesThoseThatWaitInTurn) {
  auto pool = must(BufferPool::make(2));
  BufferPool::Share &one = pool.open("1"), &two = pool.open("2");
  std::byte* const first = pool.take(one);
  std::byte* const second = pool.take(two);
  ASSERT_NE(first, second);
  EXPECT_EQ(pool.take(one), nullptr);
  Waiter a, b, c;
  for (Waiter* each : {&a, &b, &c}) pool.wait(one, *each);
  pool.forget(one, b);
  pool.give(one, first);
  EXPECT_EQ(a.got, first);
  EXPECT_EQ(pool.take(one), nullptr) << "another of its own waits";
  pool.give(two, second);
  EXPECT_EQ(c.got, nullptr) << "one is free, and as many are held";
  pool.give(one, first);
  EXPECT_EQ(c.got, first);
  EXPECT_EQ(b.got, nullptr);
  EXPECT_EQ(pool.free(), 1u);
}

TEST(BufferPool, NoHostTakesMoreThanHalfOfWhatIsFree) {
  auto pool = must(BufferPool::make(128));
  std::vector<std::size_t> taken;
  for (int host = 0; host < 16; ++host) taken.push_back(take_all(pool, pool.open(std::to_string(host))).size());
  EXPECT_EQ(taken, (std::vector<std::size_t>{60, 30, 15, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
}

TEST(BufferPool, OneBufferServesEverybodyInTurns) {
  auto pool = must(BufferPool::make(1));
  BufferPool::Share &one = pool.open("1"), &two = pool.open("2");
  std::byte* const buffer = pool.take(one);
  ASSERT_NE(buffer, nullptr);
  Waiter a, b, c;
  pool.wait(one, a);
  pool.wait(one, b);
  pool.wait(two, c);
  pool.give(one, buffer);
  EXPECT_EQ(a.got, buffer);
  pool.give(one, buffer);
  EXPECT_EQ(c.got, buffer) << "the other host's turn";
  pool.give(two, buffer);
  EXPECT_EQ(b.got, buffer);
}

TEST(BufferPool, UsersOfAHostShareWhatItMayHave) {
  auto pool = must(BufferPool::make(8));
  BufferPool::Share& host = pool.open("1");
  EXPECT_EQ(&pool.open("1"), &host);
  auto taken = take_all(pool, host);
  EXPECT_EQ(taken.size(), 4u);
  pool.close(host);
  for (std::byte* one : taken) pool.give(host, one);
  EXPECT_EQ(host.held(), 0u);
  pool.close(host);
  EXPECT_EQ(take_all(pool, pool.open("1")).size(), 4u);
}

// A queue that gets a buffer may end, and give back all that it has.
TEST(BufferPool, ThoseThatAreServedMayGiveBuffersBack) {
  auto pool = must(BufferPool::make(8));
  BufferPool::Share &one = pool.open("1"), &two = pool.open("2");
  auto first = take_all(pool, one), second = take_all(pool, two);
  std::vector<Waiter> waiters(6);
  for (Waiter& each : waiters) pool.wait(one, each);
  waiters[0].then = [&] {
    pool.give(one, waiters[0].got);
    pool.forget(one, waiters[1]);
    for (std::byte* each : second) pool.give(two, each);
  };
  pool.give(one, first[0]);
  pool.give(one, first[1]);
  std::vector<bool> served;
  for (const Waiter& each : waiters) served.push_back(each.got != nullptr);
  EXPECT_EQ(served, (std::vector<bool>{true, false, true, true, false, false}));
  EXPECT_EQ(one.held(), 4u);
  EXPECT_EQ(pool.free(), 4u);
}

}  // namespace
}  // namespace uroce::nvmf
