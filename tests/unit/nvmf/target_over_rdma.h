// A target and a host in one process, on two devices of a World behind a server: the target runs while the host waits.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "client/in_process.h"
#include "client/in_process_cm.h"
#include "cm/manager.h"
#include "nvmf/reactors.h"
#include "service/server.h"
#include "support/nvmf_initiator.h"
#include "tests/unit/client/endpoints.h"

namespace uroce::nvmf {

using nvme::Status;
using test::admin_command;
using test::InitiatorQueue;
using test::io_command;
using test::log_command;
using test::make_controller;
using test::property_get;
using test::property_set;
using test::status_of;

inline constexpr char kDisks[] = "nqn.2024-01.org.example:disks";
inline constexpr char kHostNqn[] = "nqn.2024-01.org.example:host";

/// A device of this process, for any number of reactors, whose threads are the test's own.
class InProcessNetwork final : public Network {
 public:
  InProcessNetwork(cm::Manager& manager, std::shared_ptr<control::Device> device, uint32_t reactors)
      : connections_(client::make_in_process_cm(manager, device)), device_(std::move(device)), sleepers_(reactors) {}
  ConnectionManager& connections() override { return connections_; }
  Result<Context> device(const std::string&) override {
    return Context(test::must(client::make_in_process_context(device_)));
  }
  uint32_t reactors() const override { return static_cast<uint32_t>(sleepers_.size()); }
  bool poll() override { return false; }
  void idle(std::chrono::nanoseconds) override {}
  bool wakes() const override { return false; }
  void wake(uint32_t reactor) override {
    ++sleepers_[reactor].wakes;
    sleepers_[reactor].wakes.notify_all();
  }

  /// The wake()s of a reactor so far.
  uint32_t wakes(uint32_t reactor) const { return sleepers_[reactor].wakes; }
  /// Returns once there have been more. No frame and no time ends this sleep.
  void sleep(uint32_t reactor, uint32_t wakes) const { sleepers_[reactor].wakes.wait(wakes); }

 private:
  ConnectionManager connections_;
  const std::shared_ptr<control::Device> device_;
  struct Sleeper {
    std::atomic<uint32_t> wakes{0};
  };
  std::vector<Sleeper> sleepers_;
};

class TargetOverRdma : public testing::Test {
 protected:
  /// Both are clients of a daemon where there is one reactor; with more, the devices are of this process.
  /// Device 1 is the target's, 0 the host's, and 2 another host's.
  explicit TargetOverRdma(uint32_t buffers = 8, uint32_t reactors = 1) {
    for (int device = 0; device < 3; ++device) world_.add();
    const std::vector devices{world_.device(0), world_.device(1), world_.device(2)};
    connections_ = test::must(cm::Manager::start(devices, 7));
    buffers_ = buffers;
    if (reactors > 1) {
      network_ = std::make_unique<InProcessNetwork>(*connections_, world_.device(1), reactors);
      hosts_network_ = std::make_unique<InProcessNetwork>(*connections_, world_.device(0), 1);
      return;
    }
    server_ = test::must(service::Server::start({.socket = socket_}, devices, {}, connections_.get()));
    network_ = test::must(open_daemon_network({.socket = socket_}));
  }
  ~TargetOverRdma() override {
    host_.reset();
    reactors_.reset();
    network_.reset();
    hosts_network_.reset();
    server_.reset();
    connections_.reset();
    world_.stop();
    std::filesystem::remove_all(folder_);
  }

  /// A subsystem with these namespaces, for kHostNqn alone.
  void serve(std::vector<NamespaceSettings> namespaces, const ListenSettings& listen = {}) {
    std::vector<Subsystem> subsystems;
    subsystems.push_back(
        test::must(open_subsystem({.nqn = kDisks, .namespaces = std::move(namespaces), .hosts = {kHostNqn}})));
    reactors_ = test::must(Reactors::start(*network_, std::move(subsystems), listen, buffers_));
    const std::string device = world_.device(0)->config().name;
    if (hosts_network_) {
      host_ = std::make_unique<test::InitiatorHost>(hosts_network_->connections(),
                                                    test::must(hosts_network_->device(device)), [this] { pass(); });
    } else {
      host_ = daemon_host(0);
    }
  }
  /// A host beside the target's daemon.
  std::unique_ptr<test::InitiatorHost> daemon_host(std::size_t device) {
    auto made = std::make_unique<test::InitiatorHost>(DaemonOptions{socket_}, world_.device(device)->config().name,
                                                      [this] { pass(); });
    made->local = CmAddress{.ip = World::gid(device)};
    return made;
  }
  void pass() {
    now_ += step_;
    for (const uint32_t index : order_) reactors_->poll(index, now_);
    if (const auto after = after_pass_) after();  // it may set another
  }
  CmAddress address() const { return {World::gid(1), 4420}; }
  test::InitiatorQueue queue(uint16_t id, uint32_t entries = 16) { return {*host_, address(), id, entries}; }

  using World = test::World;
  const std::string folder_ = testing::TempDir() + "uroce-nvmf-" + std::to_string(getpid());
  const std::string socket_ = folder_ + "/socket";
  std::atomic<Nanos> ahead_{};  ///< of the machine's clock: what the devices' clock has been put on
  World world_{World::Mode::threaded,
               [this] { return std::chrono::steady_clock::now().time_since_epoch() + ahead_.load(); }};
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<service::Server> server_;
  std::unique_ptr<Network> network_, hosts_network_;
  std::unique_ptr<Reactors> reactors_;
  std::unique_ptr<test::InitiatorHost> host_;
  uint32_t buffers_ = 8;
  std::vector<uint32_t> order_{0};  ///< the reactors' turns in a pass
  std::function<void()> after_pass_{};
  Nanos now_{};
  Nanos step_ = std::chrono::microseconds(10);  ///< by which the target's clock goes on in each pass
};

}  // namespace uroce::nvmf
