// Two servers in this process, each with a device of its own, which have the same addresses: the second goes on with
// the clients of the first. Their peer is on another device.
#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "service/server.h"
#include "tests/unit/client/endpoints.h"

namespace uroce::service {
namespace {

using test::connect;
using test::must;
using test::next;
using test::Side;
using test::World;

constexpr std::chrono::seconds kHoldPatience{20};

class SuccessionTest : public testing::Test {
 protected:
  SuccessionTest() {
    world_.add({.engines = 2});
    world_.add();
    first_ = start(folder_ + "/first", world_.device(0));
    client_.emplace(must(open_daemon_device("uroce0", {folder_ + "/first"})));
    peer_.emplace(world_.device(1));
    for (std::size_t i = 0; i < Side::kBytes; ++i) peer_->memory[i] = static_cast<std::byte>(i * 7);
  }
  ~SuccessionTest() override {
    client_.reset();
    peer_.reset();
    second_.reset();
    first_.reset();
    world_.stop();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<Server> start(const std::string& socket, const std::shared_ptr<control::Device>& device) {
    return must(Server::start({.socket = socket}, {device}, [this](Severity, std::string_view text) {
      const std::scoped_lock lock(log_mutex_);
      log_ += std::string(text) + "\n";
    }));
  }
  /// The device of the successor.
  void add_second() {
    control::DeviceConfig config{.engines = 2};
    config.name = "uroce0";
    config.mac = world_.device(0)->config().mac;
    config.gids = world_.device(0)->gids();
    config.seed = ++seed_;
    world_.add(config);
    second_ = start(folder_ + "/" + std::to_string(seed_), world_.device(world_devices_++));
  }
  /// The successor becomes the first server.
  Server::Inherited hand_over(const std::function<void()>& meanwhile = [] {}) {
    add_second();
    must(first_->hold(kHoldPatience));
    meanwhile();
    auto estate = must(first_->estate());
    const auto inherited = must(second_->inherit(std::move(estate)));
    first_->leave();
    second_->go_on();
    first_ = std::move(second_);
    return inherited;
  }
  std::string log() {
    const std::scoped_lock lock(log_mutex_);
    return log_;
  }

  /// Posts a request of every kind from the client, whose region is `mr`, and checks what it brings.
  void expect_all_operations(QueuePair& mine, QueuePair& theirs, const MemoryRegion& mr) {
    const Sge target = mr.sge(0, 8192);
    EXPECT_EQ(0, mine.post_send({.wr_id = 1,
                                 .opcode = WrOpcode::rdma_read,
                                 .flags = SendFlag::signaled,
                                 .sges = {&target, 1},
                                 .remote_addr = reinterpret_cast<uint64_t>(peer_->memory.data()),
                                 .rkey = peer_->mr.rkey()}));
    EXPECT_EQ(next(world_, client_->cq).status, WcStatus::success);
    EXPECT_TRUE(std::equal(client_->memory.begin(), client_->memory.begin() + 8192, peer_->memory.begin()));
    const Sge there = peer_->mr.sge(1024, 4096);
    EXPECT_EQ(0, theirs.post_recv({.wr_id = 2, .sges = {&there, 1}}));
    const Sge source = mr.sge(16, 4096);
    EXPECT_EQ(
        0, mine.post_send({.wr_id = 3, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&source, 1}}));
    EXPECT_EQ(next(world_, client_->cq).wr_id, 3u);
    EXPECT_EQ(next(world_, peer_->cq).byte_len, 4096u);
    EXPECT_TRUE(std::equal(peer_->memory.begin() + 1024, peer_->memory.begin() + 5120, client_->memory.begin() + 16));
    for (std::size_t i = 0; i < Side::kBytes; ++i) peer_->memory[i] = static_cast<std::byte>(i * 7);
  }

  const std::string folder_ = testing::TempDir() + "uroce-succession-" + std::to_string(getpid());
  World world_{World::Mode::threaded};
  uint64_t seed_ = 100;
  std::size_t world_devices_ = 2;
  std::mutex log_mutex_;
  std::string log_;
  std::unique_ptr<Server> first_, second_;
  std::optional<Side> client_, peer_;
};

TEST_F(SuccessionTest, ClientsGoOnWithWhatTheyHave) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  expect_all_operations(mine, theirs, client_->mr);
  for (int restart = 0; restart < 10; ++restart) {
    const auto inherited = hand_over();
    EXPECT_EQ(inherited.clients, 1u) << log();
    EXPECT_EQ(inherited.queue_pairs, 1u);
    EXPECT_EQ(inherited.refused, 0u);
    EXPECT_FALSE(client_->context.lost());
    expect_all_operations(mine, theirs, client_->mr);
    // New objects have numbers that no old one has.
    auto more = client_->make_qp();
    EXPECT_NE(more.qpn(), mine.qpn());
    std::vector<std::byte> memory(4096);
    auto mr = must(client_->pd.register_memory(memory.data(), memory.size(), Side::kAll));
    EXPECT_NE(mr.rkey(), client_->mr.rkey());
  }
}

TEST_F(SuccessionTest, WhatIsPostedMeanwhileIsDone) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  const Sge own = client_->mr.sge(0, 64);
  const Sge there = peer_->mr.sge(0, 64);
  EXPECT_EQ(0, mine.post_recv({.wr_id = 5, .sges = {&own, 1}}));
  hand_over([&] {
    for (uint64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(0, mine.post_send({.wr_id = 100 + i,
                                   .opcode = WrOpcode::rdma_write,
                                   .flags = SendFlag::signaled,
                                   .sges = {&own, 1},
                                   .remote_addr = reinterpret_cast<uint64_t>(peer_->memory.data()) + 64 * i,
                                   .rkey = peer_->mr.rkey()}));
    }
    EXPECT_EQ(
        0, theirs.post_send({.wr_id = 7, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&there, 1}}));
    // Longer than the peer waits for its acknowledgement.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  std::set<uint64_t> done;
  while (done.size() < 41) {
    const auto completion = next(world_, client_->cq);
    ASSERT_EQ(completion.status, WcStatus::success);
    EXPECT_TRUE(done.insert(completion.wr_id).second) << completion.wr_id << " twice";
  }
  EXPECT_TRUE(done.contains(5));
  EXPECT_EQ(next(world_, peer_->cq).wr_id, 7u);
}

TEST_F(SuccessionTest, TheFirstGoesOnWhereNobodyTakesOver) {
  auto mine = client_->make_qp();
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  must(first_->hold(kHoldPatience));
  (void)must(first_->estate());
  first_->go_on();
  expect_all_operations(mine, theirs, client_->mr);
  EXPECT_EQ(first_->clients().size(), 1u);
}

TEST_F(SuccessionTest, EveryKindOfObject) {
  auto srq = must(client_->context.create_srq(client_->pd, 64, 1));
  auto mine = client_->make_qp({.type = QpType::rc}, &srq);
  auto theirs = peer_->make_qp();
  connect(*client_, mine, *peer_, theirs);
  auto window = must(client_->pd.create_memory_window(WindowType::type2));
  auto null = must(client_->pd.create_null_region());
  const Sge own = client_->mr.sge(0, 64);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(0, srq.post_recv({.wr_id = i, .sges = {&own, 1}}));
  hand_over();
  const Sge there = peer_->mr.sge(0, 64);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(
        0, theirs.post_send({.wr_id = i, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&there, 1}}));
    EXPECT_EQ(next(world_, peer_->cq).status, WcStatus::success);
    EXPECT_EQ(next(world_, client_->cq).wr_id, i);
  }
  EXPECT_EQ(client_->memory[9], static_cast<std::byte>(63));
  must(client_->cq.resize(4096));
  expect_all_operations(mine, theirs, client_->mr);
}

TEST_F(SuccessionTest, AForgedEstateEndsItsClientsAlone) {
  auto mine = client_->make_qp();
  add_second();
  must(first_->hold(kHoldPatience));
  const auto whole = must(first_->estate());
  // Each byte wrong once: the successor refuses the whole, or a client, or takes numbers that are as good.
  for (std::size_t at = 0; at < whole.rows.size(); at += 3) {
    Estate forged;
    forged.rows = whole.rows;
    forged.rows[at] ^= std::byte{0x41};
    for (const auto& fd : whole.fds) forged.fds.emplace_back(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    (void)second_->inherit(std::move(forged));
    second_->give_up();
  }
  first_->go_on();
  EXPECT_FALSE(client_->context.lost());
}

}  // namespace
}  // namespace uroce::service
