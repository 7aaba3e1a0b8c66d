// Two servers in this process, each with a device of its own, which have the same addresses: the second goes on with
// the clients of the first. Their peer is on another device.
#pragma once

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "service/listener.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"

namespace uroce::service {

using test::must;
using test::next;
using test::Side;
using test::World;

class SuccessionTest : public testing::Test {
 protected:
  SuccessionTest() {
    world_.add({.engines = 2, .settings = small()});
    world_.add();
    owner_ = own(message::SocketOwner::take(socket_));
    servers_.push_back(start({.owner = owner_}, world_.device(0)));
    client_.emplace(must(open_daemon_device("uroce0", {socket_})));
    peer_.emplace(world_.device(1));
    for (std::size_t i = 0; i < Side::kBytes; ++i) peer_->memory[i] = static_cast<std::byte>(i * 7);
  }
  ~SuccessionTest() override {
    client_.reset();
    peer_.reset();
    while (!servers_.empty()) servers_.pop_back();
    world_.stop();
    std::filesystem::remove_all(folder_);
  }

  /// test::connect(), with a timeout that no hand-over outlasts on a busy machine: 8 times 4.3 s.
  static void connect(const Side& a, QueuePair& qa, const Side& b, QueuePair& qb) { test::connect(a, qa, b, qb, 20); }
  static EngineSettings small() {
    EngineSettings settings;
    settings.max_qp = 64;
    settings.max_mr = 256;
    return settings;
  }
  static std::shared_ptr<message::SocketOwner> own(Result<message::SocketOwner> owner) {
    return std::make_shared<message::SocketOwner>(must(std::move(owner)));
  }
  std::unique_ptr<Server> start(ServerConfig config, const std::shared_ptr<control::Device>& device) {
    config.socket = socket_;
    return must(Server::start(std::move(config), {device}, [this](Severity severity, std::string_view text) {
      if (severity == Severity::debug) return;
      const std::scoped_lock lock(log_mutex_);
      log_ += std::string(text) + "\n";
    }));
  }
  Server& running() { return *servers_.back(); }
  /// A server that is to take over, with a device of its own.
  std::unique_ptr<Server> make_successor() {
    const auto& now = world_.device(0);
    control::DeviceConfig config{.engines = 2, .settings = small()};
    config.name = now->config().name;
    config.mac = now->config().mac;
    config.gids = now->gids();
    std::erase(config.gids, Gid{});
    config.seed = ++seed_;
    world_.add(config);
    auto belongings = std::make_shared<message::Belongings>();
    belongings->lend(kListenerName, running().listener());
    const int lock = fcntl(owner_->file().fd(), F_DUPFD_CLOEXEC, 0);
    return start({.owner = own(message::SocketOwner::share(socket_, lock)), .inherited = std::move(belongings)},
                 world_.device(world_devices_++));
  }
  struct Ends {
    message::Connection predecessor, successor;
  };
  static Ends connection() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    return {message::Connection(message::Fd(ends[0])), message::Connection(message::Fd(ends[1]))};
  }
  /// The successor goes on with the clients. The server before stands still until the end of the test.
  Bequest hand_over(const std::function<void()>& meanwhile = [] {}, const EstateVersions& versions = {}) {
    auto successor = make_successor();
    auto ends = connection();
    must(running().hold(versions));
    meanwhile();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    const auto bequest = must(running().bequeath(to));
    const auto inherited = must(successor->inherit(from));
    EXPECT_EQ(inherited.queue_pairs, bequest.queue_pairs);
    successor->begin();
    servers_.push_back(std::move(successor));
    return {.queue_pairs = inherited.queue_pairs, .refused = bequest.refused + inherited.refused};
  }
  /// Nothing stands still for a successor that does not know what a client has.
  void expect_not_in_version_1(const std::string& what) {
    const auto held = running().hold({.estate = 1});
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().code, EPROTONOSUPPORT);
    const std::string said = " has " + what + ", which the successor cannot take over: it reads version 1 of the ";
    EXPECT_NE(held.error().text.find(said), std::string::npos) << held.error().text;
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
  const std::string socket_ = folder_ + "/socket";
  World world_{World::Mode::threaded};
  uint64_t seed_ = 100;
  std::size_t world_devices_ = 2;
  std::mutex log_mutex_;
  std::string log_;
  std::shared_ptr<message::SocketOwner> owner_;
  std::vector<std::unique_ptr<Server>> servers_;  // the last one serves
  std::optional<Side> client_, peer_;
};

}  // namespace uroce::service
