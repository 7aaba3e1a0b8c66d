// Connections in a planned restart: two servers in this process, each with a device and a connection manager of its
// own. The second goes on with the clients of the first, whose peers are on another device.
#pragma once

#include <uroce/cm.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uroce/daemon.h>

#include "client/in_process_cm.h"
#include "cm/manager.h"
#include "service/listener.h"
#include "service/server.h"
#include "tests/unit/client/endpoints.h"
#include "tests/unit/service/cm_program.h"

namespace uroce::service {
using test::must;
using test::next;
using test::Side;
using test::World;
using namespace std::chrono_literals;

class CmSuccessionTest : public testing::Test {
 protected:
  CmSuccessionTest() {
    world_.add();
    world_.add();
    far_manager_ = must(cm::Manager::start({world_.device(1)}, 7));
    owner_ = own(message::SocketOwner::take(socket_));
    managers_.push_back(must(cm::Manager::start({world_.device(0)}, 8)));
    servers_.push_back(start({.owner = owner_}, world_.device(0), *managers_.back()));
    near_.emplace(must(ConnectionManager::open({socket_})));
    far_.emplace(ConnectionManager(client::make_in_process_cm(*far_manager_, world_.device(1))));
  }
  ~CmSuccessionTest() override {
    near_.reset();
    far_.reset();
    while (!servers_.empty()) servers_.pop_back();
    while (!managers_.empty()) managers_.pop_back();
    far_manager_.reset();
    world_.stop();
    std::filesystem::remove_all(folder_);
  }

  static std::shared_ptr<message::SocketOwner> own(Result<message::SocketOwner> owner) {
    return std::make_shared<message::SocketOwner>(must(std::move(owner)));
  }
  std::unique_ptr<Server> start(ServerConfig config, const std::shared_ptr<control::Device>& device,
                                cm::Manager& manager) {
    config.socket = socket_;
    const auto log = [this](Severity severity, std::string_view text) {
      if (severity == Severity::debug) return;
      const std::scoped_lock lock(log_mutex_);
      log_ += std::string(text) + "\n";
    };
    return must(Server::start(std::move(config), {device}, log, &manager));
  }
  Server& running() { return *servers_.back(); }
  struct Heir {
    std::unique_ptr<cm::Manager> manager;
    std::unique_ptr<Server> server;
  };
  /// A server that is to take over, with a device and a manager of its own.
  Heir make_successor(BudgetSettings budgets = {}) {
    const auto& now = world_.device(0);
    control::DeviceConfig config;
    config.name = now->config().name;
    config.mac = now->config().mac;
    config.gids = now->gids();
    config.seed = ++seed_;
    world_.add(config);
    const auto device = world_.device(world_devices_++);
    auto belongings = std::make_shared<message::Belongings>();
    belongings->lend(kListenerName, running().listener());
    const int lock = fcntl(owner_->file().fd(), F_DUPFD_CLOEXEC, 0);
    auto manager = must(cm::Manager::start({device}, ++seed_));
    auto server = start({.owner = own(message::SocketOwner::share(socket_, lock)),
                         .budgets = std::move(budgets),
                         .inherited = std::move(belongings)},
                        device, *manager);
    return {std::move(manager), std::move(server)};
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
  Bequest hand_over(const std::function<void()>& meanwhile = [] {}, BudgetSettings budgets = {}) {
    Heir heir = make_successor(std::move(budgets));
    auto ends = connection();
    must(running().hold());
    meanwhile();
    message::SuccessionLink to(ends.predecessor), from(ends.successor);
    const auto bequest = must(running().bequeath(to));
    const auto inherited = must(heir.server->inherit(from));
    heir.server->begin();
    managers_.push_back(std::move(heir.manager));
    servers_.push_back(std::move(heir.server));
    return {.queue_pairs = inherited.queue_pairs, .refused = bequest.refused + inherited.refused};
  }
  void expect_hand_over(const std::function<void()>& meanwhile = [] {}) {
    EXPECT_EQ(hand_over(meanwhile).refused, 0u) << log();
    EXPECT_EQ(log(), "");
  }
  std::string log() {
    const std::scoped_lock lock(log_mutex_);
    return log_;
  }
  Side near_side() { return Side(must(open_daemon_device("uroce0", {socket_}))); }
  Side far_side() { return Side(world_.device(1)); }
  static void to_init(const CmId& id, QueuePair& qp) {
    const auto [attr, mask] = must(id.qp_attr(QpState::init));
    must(qp.modify(attr, mask));
  }
  static CmAddress near_at(uint16_t port) { return {World::gid(0), port}; }
  static CmAddress far_at(uint16_t port) { return {World::gid(1), port}; }
  void expect_write_arrives(Side& a, QueuePair& from, Side& b) {
    const auto value = static_cast<std::byte>(++written_);
    a.memory[9] = value;
    ASSERT_EQ(from.post_send({.opcode = WrOpcode::rdma_write,
                              .flags = SendFlag::signaled,
                              .sges = std::array{a.mr.sge(0, 64)},
                              .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                              .rkey = b.mr.rkey()}),
              0);
    EXPECT_EQ(next(world_, a.cq).status, WcStatus::success);
    EXPECT_EQ(b.memory[9], value);
  }
  uint64_t counter(const std::string& name) {
    for (const auto& [one, count] : managers_.back()->counters("uroce0")) {
      if (one == name) return count;
    }
    return 0;
  }

  const std::string folder_ = testing::TempDir() + "uroce-cm-succession-" + std::to_string(getpid());
  const std::string socket_ = folder_ + "/socket";
  World world_{World::Mode::threaded};
  uint64_t seed_ = 100;
  std::size_t world_devices_ = 2;
  int written_ = 0;
  std::mutex log_mutex_;
  std::string log_;
  std::shared_ptr<message::SocketOwner> owner_;
  std::unique_ptr<cm::Manager> far_manager_;
  std::vector<std::unique_ptr<cm::Manager>> managers_;
  std::vector<std::unique_ptr<Server>> servers_;  // the last one serves
  std::optional<CmProgram> near_, far_;
};

}  // namespace uroce::service
