// One host, and all hosts of no list together, take as many controllers and queues as they can get.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "must.h"
#include "nvmf/admission.h"
#include "nvmf/holdings.h"
#include "nvmf/target.h"

namespace uroce::nvmf {
namespace {

using nvme::Status;

constexpr char kListedDisks[] = "nqn.2024-01.org.example:disks";
constexpr char kListed[] = "nqn.2024-01.org.example:host";
constexpr uint32_t kFortnights = 1'200'000'000;  // in ms

Target target_for_one() {
  std::vector<Subsystem> all;
  std::vector<NamespaceSettings> namespaces;
  namespaces.push_back({.memory_bytes = 1 << 20});
  all.push_back(must(open_subsystem({.nqn = kListedDisks, .namespaces = std::move(namespaces), .hosts = {kListed}})));
  return Target(std::move(all), 1, {.max_queues = 4096});
}

class Bounded : public testing::Test {
 protected:
  Status connect(const char* subsystem, const std::string& host, const std::string& address, uint32_t keep_alive_ms) {
    nvme::Command command{};
    command.cdw11 = 31;
    command.cdw12 = keep_alive_ms;
    nvme::ConnectData data{};
    data.controller_id = nvme::kDynamicController;
    std::string(subsystem).copy(data.subsystem_nqn.data(), data.subsystem_nqn.size());
    host.copy(data.host_nqn.data(), data.host_nqn.size());
    auto made = target_.connect(command, data, 0, 32, address, Nanos(0));
    if (!made) return made.error().status;
    made_.emplace_back(std::move(made->controller), address);
    return Status::success;
  }
  uint32_t connect_many(uint32_t tries, const char* subsystem, auto host, auto address) {
    const std::size_t before = made_.size();
    for (uint32_t i = 0; i < tries; ++i) (void)connect(subsystem, host(i), address(i), 60'000);
    return static_cast<uint32_t>(made_.size() - before);
  }
  static std::string stranger(uint32_t number) { return "nqn.2024-01.org.example:stranger" + std::to_string(number); }
  static std::string place(uint32_t number) { return "192.0.2." + std::to_string(number); }

  Target target_ = target_for_one();
  std::vector<std::pair<std::shared_ptr<Controller>, std::string>> made_;
};

TEST_F(Bounded, StrangersLeaveControllersToListedHosts) {
  EXPECT_EQ(connect(nvme::kDiscoveryNqn, stranger(0), place(1), kFortnights), Status::keep_alive_invalid);
  const auto one_place = [](uint32_t) { return place(1); };
  EXPECT_EQ(connect_many(2000, nvme::kDiscoveryNqn, stranger, one_place), kHostDiscovery) << "of one address";
  const auto one_name = [](uint32_t) { return stranger(2001); };
  EXPECT_EQ(connect_many(2000, nvme::kDiscoveryNqn, one_name, [](uint32_t i) { return place(2 + i); }), kHostDiscovery)
      << "of one NQN";
  EXPECT_LE(connect_many(2000, nvme::kDiscoveryNqn, stranger, [](uint32_t i) { return place(2 + i); }),
            kDiscoveryControllers / 2);
  EXPECT_EQ(connect(nvme::kDiscoveryNqn, stranger(3000), place(3000), 0), Status::connect_controller_busy);
  EXPECT_EQ(connect(nvme::kDiscoveryNqn, kListed, place(5000), 0), Status::success);
  EXPECT_EQ(connect(kListedDisks, kListed, place(5000), kFortnights), Status::success);
}

TEST_F(Bounded, AListedHostHasAPartOfTheControllers) {
  const auto name = [](uint32_t) { return std::string(kListed); };
  EXPECT_EQ(connect_many(2000, kListedDisks, name, place), kIoControllers / 4);
  EXPECT_EQ(connect(kListedDisks, kListed, place(1), 0), Status::connect_controller_busy);
  for (auto& [controller, address] : std::exchange(made_, {})) target_.remove(*controller, address);
  EXPECT_EQ(target_.controllers(), 0u);
  EXPECT_EQ(connect_many(2000, kListedDisks, name, place), kIoControllers / 4) << "all has been given back";
}

TEST(Holdings, GiveBackWhatWasTaken) {
  Holdings holdings({.max_queues = 64}, true);
  const Holder stranger{.address = "192.0.2.1", .nqn = "nqn.a"}, listed{"192.0.2.2", "nqn.b", true};
  for (int round = 0; round < 3; ++round) {
    uint32_t taken = 0;
    while (holdings.take(stranger, kIoQueue)) ++taken;
    EXPECT_EQ(taken, 48u);
    for (uint32_t i = 0; i < 16; ++i) EXPECT_TRUE(holdings.take(listed, kIoQueue));
    EXPECT_FALSE(holdings.take(listed, kIoQueue)) << "all are taken";
    for (uint32_t i = 0; i < 16; ++i) holdings.give(listed, kIoQueue);
    for (uint32_t i = 0; i < taken; ++i) holdings.give(stranger, kIoQueue);
    EXPECT_EQ(holdings.all().queues, 0u);
  }
}

class AdmissionTest : public testing::Test {
 protected:
  static Gid place(uint32_t number) { return Gid::from_ipv4(0xc0000200 + number); }
  /// As the connections do it: the number of the queue, or nullopt. An evicted queue ends at once.
  std::optional<uint32_t> open(uint32_t host) {
    const auto answer = admission_.admit(place(host));
    if (!answer.admitted) return std::nullopt;
    if (answer.instead) {
      admission_.evicted(*answer.instead);
      admission_.ended(*answer.instead);
      evicted_.push_back(*answer.instead);
    }
    admission_.opened(next_, place(host));
    return next_++;
  }

  Admission admission_{Bounds{.max_queues = 200}};
  std::vector<uint32_t> evicted_;
  uint32_t next_ = 0;
};

TEST_F(AdmissionTest, TheOldestOfTheGreediestGivesWay) {
  for (uint32_t i = 0; i < 50; ++i) EXPECT_TRUE(open(1));
  EXPECT_FALSE(open(1)) << "a quarter may wait";
  for (uint32_t host = 2; host < 5; ++host) {
    for (uint32_t i = 0; i < 50; ++i) EXPECT_TRUE(open(host));
  }
  EXPECT_TRUE(open(9));
  EXPECT_TRUE(open(9));
  EXPECT_EQ(evicted_, (std::vector<uint32_t>{0, 50}));
  EXPECT_FALSE(open(3)) << "nobody has more than it";
}

TEST_F(AdmissionTest, AListedHostGetsAWholeControllerBesideAnyNumberOfAddresses) {
  for (uint32_t host = 0; host < 200; ++host) EXPECT_TRUE(open(1000 + host));
  const auto admin = open(1);
  ASSERT_TRUE(admin);
  EXPECT_FALSE(open(1)) << "before Connect it is one address of many";
  admission_.connected(*admin, true);
  for (uint32_t i = 0; i < kIoQueues; ++i) EXPECT_TRUE(open(1));
  for (uint32_t host = 0; host < 400; ++host) (void)open(2000 + host);
  EXPECT_EQ(std::ranges::count_if(evicted_, [&](uint32_t number) { return number >= *admin && number <= *admin + 32; }),
            0);
}

TEST_F(AdmissionTest, AQueueThatConnectsInTimeStays) {
  for (uint32_t i = 0; i < 200; ++i) EXPECT_TRUE(open(1 + i % 4));
  const auto answer = admission_.admit(place(9));
  ASSERT_TRUE(answer.instead);
  admission_.evicted(*answer.instead);
  admission_.opened(next_++, place(9));
  admission_.connected(*answer.instead, false);
  for (uint32_t i = 0; i < 100; ++i) {
    const auto next = admission_.admit(place(10 + i));
    if (!next.admitted) break;
    admission_.evicted(*next.instead);
    admission_.opened(next_++, place(10 + i));
  }
  EXPECT_LE(next_, 200 + kIoQueues + 1) << "what is beyond the bound is bounded, too";
  for (uint32_t number = 0; number < next_; ++number) admission_.ended(number);
  EXPECT_TRUE(open(9));
}

}  // namespace
}  // namespace uroce::nvmf
