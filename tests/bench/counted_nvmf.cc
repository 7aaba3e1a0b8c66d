// The program that tests/bench/instructions runs under callgrind for the rows of NVMe over Fabrics: a target and a host
// in one process and in virtual time, over a network that loses nothing. Only the target's side is counted.
//
// Usage: counted_nvmf --list, counted_nvmf --compiler, or counted_nvmf ROW...
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "client/in_process.h"
#include "client/in_process_cm.h"
#include "cm/manager.h"
#include "nvmf/config.h"
#include "nvmf/reactors.h"
#include "support/nvmf_initiator.h"
#include "tests/bench/counted_rows.h"
#include "tests/bench/message_pair.h"

namespace uroce::bench {

constexpr char kNqn[] = "nqn.2024-01.org.example:counted";
constexpr char kHostNqn[] = "nqn.2024-01.org.example:host";
constexpr uint32_t kBytes = 4096;  ///< of an I/O
constexpr uint32_t kMostDepth = 32;
constexpr Nanos kPass{1000};
/// Passes until a batch must have ended.
constexpr int kPatience = 100'000;

template <class T>
T good(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

/// A device with one engine, which the calling thread polls, and its end of the network.
class Machine final : public control::DeviceHost {
 public:
  explicit Machine(uint8_t number) : number_(number) {
    control::DeviceConfig config;
    config.name = fmt::format("uroce{}", number);
    config.mac = mac_of(number);
    config.gids = {gid_of(number)};
    config.max_path_mtu = Mtu::mtu4096;
    config.ethernet_mtu = 9000;
    config.settings.max_qp = 64;
    config.settings.max_mr = 64;
    config.seed = number + 1u;
    device_ = good(control::Device::create(std::move(config), *this));
  }
  ~Machine() override { device_->shut_down(); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  static Gid gid_of(uint8_t number) { return Gid::from_ipv4(0x0a000001u + number); }
  static EthAddr mac_of(uint8_t number) { return {{2, 0, 0, 0, 0, number}}; }
  void set_peer(Machine& peer) { peer_ = &peer; }
  const std::shared_ptr<control::Device>& device() const { return device_; }
  Context open() const { return Context(good(client::make_in_process_context(device_))); }

  /// Receives the frames that the peer has sent, and gives the engine a turn. True when a frame moved.
  bool poll(Nanos now) {
    now_ = now;
    transport::Engine& engine = device_->engine(0);
    const auto received = peer_->sink_.take();
    if (!received.empty()) engine.on_frames(received, now);
    const std::size_t room = sink_.room();
    engine.poll(sink_, now);
    return !received.empty() || sink_.room() != room;
  }

  void wake(uint32_t) override {}
  Result<int> wake_descriptor(uint32_t) override { return open_null(); }
  void wait_step() override { poll(now_ + kPass); }
  bool runs_engines_here() const override { return true; }
  Result<EthAddr> resolve(const Gid&, const Gid&, uint32_t, std::chrono::nanoseconds) override {
    return mac_of(peer_->number_);
  }
  std::optional<EthAddr> next_hop(const Gid&) override { return mac_of(peer_->number_); }
  void join_group(const Gid&) override {}
  void leave_group(const Gid&) override {}
  Result<Gid> source_for(const Gid&) override { return gid_of(number_); }
  bool link_up() const override { return true; }
  Nanos clock() const override { return now_; }

 private:
  static Result<int> open_null() {
    const int made = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    return made < 0 ? Result<int>(fail(errno, "cannot open /dev/null")) : Result<int>(made);
  }

  const uint8_t number_;
  Machine* peer_ = nullptr;
  MemorySink sink_;
  Nanos now_{0};
  std::shared_ptr<control::Device> device_;
};

/// The devices and connections of the target: those of its machine.
class MachineNetwork final : public nvmf::Network {
 public:
  MachineNetwork(Machine& machine, cm::Manager& manager)
      : machine_(machine), connections_(client::make_in_process_cm(manager, machine.device())) {}
  ConnectionManager& connections() override { return connections_; }
  Result<Context> device(const std::string&) override { return machine_.open(); }
  bool poll() override { return machine_.poll(now); }
  void idle(std::chrono::nanoseconds) override {}
  bool wakes() const override { return true; }

  Nanos now{0};

 private:
  Machine& machine_;
  ConnectionManager connections_;
};

}  // namespace uroce::bench

/// callgrind counts inside this function alone: a pass of the target, of its engine and of its disks.
extern "C" [[gnu::noinline]] void uroce_counted_side(uroce::nvmf::Reactors& target, uroce::Nanos now);
void uroce_counted_side(uroce::nvmf::Reactors& target, uroce::Nanos now) { target.poll(0, now); }

namespace uroce::bench {

/// `write`: the data travels in the capsule. `fetched_write`: the target fetches it by RDMA READ.
enum class Io : uint8_t { read, write, fetched_write };

struct NvmfTraffic {
  Io io;
  uint32_t depth;  ///< commands outstanding
};

/// A host and a target with one I/O queue on a namespace in memory.
class NvmfPair {
 public:
  explicit NvmfPair(const NvmfTraffic& traffic) : traffic_(traffic) {
    host_machine_.set_peer(target_machine_);
    target_machine_.set_peer(host_machine_);
    connections_ =
        good(cm::Manager::start({host_machine_.device(), target_machine_.device()}, 7, cm::Turns::engines_thread));
    network_ = std::make_unique<MachineNetwork>(target_machine_, *connections_);
    const auto disk = good(nvmf::parse_namespace("memory:1M"));
    std::vector<nvmf::Subsystem> served;
    served.push_back(good(nvmf::open_subsystem({.nqn = kNqn, .namespaces = {disk}})));
    blocks_ = kBytes >> served[0].namespaces[0].block_shift;
    target_ = good(nvmf::Reactors::start(*network_, std::move(served), {}, 8 * kMostDepth));  // a host alone gets half
    host_.emplace(network_->connections(), host_machine_.open(), [this] { pass(); });
    const CmAddress address{Machine::gid_of(1), 4420};
    admin_.emplace(*host_, address, 0, kMostDepth);
    const uint16_t controller = test::make_controller(*admin_, kNqn, kHostNqn);
    io_.emplace(*host_, address, 1, 2 * kMostDepth);
    require_success(io_->connect(kNqn, kHostNqn, 1, controller));
  }

  /// `count` commands, a multiple of the depth, in batches that end before the next begins.
  void run(uint64_t count) {
    for (; count >= traffic_.depth; count -= traffic_.depth) {
      for (uint32_t slot = 0; slot < traffic_.depth; ++slot) submit(slot);
      int patience = kPatience;
      for (uint32_t ended = 0; ended < traffic_.depth;) {
        if (--patience == 0) throw std::runtime_error("I/O did not end");
        pass();
        for (auto response = io_->poll(); response; response = io_->poll(), ++ended) require_success(*response);
      }
      // The last ACKs.
      while (pass()) {
      }
    }
  }

 private:
  void submit(uint32_t slot) {
    const uint8_t opcode = traffic_.io == Io::read ? nvmf::nvme::kRead : nvmf::nvme::kWrite;
    const auto command = test::io_command(opcode, 1, uint64_t{slot} * blocks_, blocks_);
    const std::size_t offset = std::size_t{slot} * kBytes;
    if (traffic_.io == Io::write) {
      (void)io_->submit(test::InitiatorQueue::in_capsule(command, 0, kBytes), io_->data().subspan(offset, kBytes));
    } else {
      (void)io_->submit(io_->keyed(command, offset, kBytes));
    }
  }
  static void require_success(const nvmf::nvme::Response& response) {
    if (test::status_of(response) != nvmf::nvme::Status::success) throw std::runtime_error("a command failed");
  }
  /// True when a frame moved.
  bool pass() {
    now_ += kPass;
    const bool moved = host_machine_.poll(now_);
    network_->now = now_;
    uroce_counted_side(*target_, now_);
    connections_->turn(cm::steady_now());
    return moved;
  }

  const NvmfTraffic traffic_;
  uint32_t blocks_ = 0;
  Nanos now_{0};
  Machine host_machine_{0}, target_machine_{1};
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<MachineNetwork> network_;
  std::unique_ptr<nvmf::Reactors> target_;
  std::optional<test::InitiatorHost> host_;
  std::optional<test::InitiatorQueue> admin_, io_;
};

}  // namespace uroce::bench

extern "C" [[gnu::noinline]] void uroce_counted_run(uroce::bench::NvmfPair& pair, uint64_t commands);
void uroce_counted_run(uroce::bench::NvmfPair& pair, uint64_t commands) { pair.run(commands); }

namespace {

using namespace uroce::bench;

constexpr uint64_t kCommands = 320;
constexpr struct {
  const char* name;
  NvmfTraffic traffic;
} kRows[] = {
    {"nvmf-read-4096 32", {Io::read, 32}},
    {"nvmf-read-4096 1", {Io::read, 1}},
    {"nvmf-write-4096 32", {Io::write, 32}},
    {"nvmf-write-4096 1", {Io::write, 1}},
    {"nvmf-fetched-write-4096 32", {Io::fetched_write, 32}},
    {"nvmf-fetched-write-4096 1", {Io::fetched_write, 1}},
};

void count(const NvmfTraffic& traffic) {
  NvmfPair pair(traffic);
  // Every part of the queues' memory has been used, and the path is known.
  pair.run(kCommands);
  uroce_counted_run(pair, kCommands);
  uroce_counted_run(pair, 2 * kCommands);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (tell_compiler(words)) return 0;
  try {
    for (const auto& row : kRows) {
      if (tell_row(words, row.name, kCommands)) continue;
      if (std::ranges::find(words, row.name) != words.end()) count(row.traffic);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "counted_nvmf: {}\n", e.what());
    return 1;
  }
  return 0;
}
