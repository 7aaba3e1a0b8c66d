// Queues of an NVMe over Fabrics target against two hosts on real queue pairs, in one thread and in virtual time. The
// input is a program: commands good and bad, capsules of any bytes, hosts that fall silent and come back, passes, time
// that goes by, queues that close in the middle. For any input every buffer comes back, every queue and controller
// ends, and no host holds more of the pool than it may.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "input.h"
#include "nvmf/io_ring.h"
#include "nvmf/queue.h"
#include "tests/unit/client/endpoints.h"

namespace {

using namespace uroce;
using namespace uroce::nvmf;
using namespace std::chrono_literals;
using test::Input;
using test::must;
using test::require;

constexpr char kNqn[] = "nqn.2024-01.org.example:disks";
constexpr uint32_t kEntries = 4, kBuffers = 4, kCapsuleBytes = 64 + kInCapsuleBytes;
constexpr uint32_t kNamespaceBytes = 256 << 10;
constexpr std::array<uint8_t, 8> kIoOpcodes{nvme::kFlush,       nvme::kWrite, nvme::kRead,
                                            nvme::kWriteZeroes, nvme::kWrite, nvme::kDatasetManagement,
                                            nvme::kRead,        0x7e};
constexpr std::array<uint8_t, 6> kAdminOpcodes{nvme::kIdentify, nvme::kGetLogPage,  nvme::kAsyncEventRequest,
                                               nvme::kAbort,    nvme::kSetFeatures, nvme::kKeepAlive};

std::vector<Subsystem> disks() {
  std::vector<NamespaceSettings> namespaces;
  namespaces.push_back({.memory_bytes = kNamespaceBytes});
  std::vector<Subsystem> all;
  all.push_back(must(open_subsystem({.nqn = kNqn, .namespaces = std::move(namespaces)})));
  return all;
}

/// A queue of the target with the host's end of its connection.
struct Pair {
  std::size_t host = 0;
  uint16_t id = 0;
  std::unique_ptr<Queue> queue{};
  std::optional<QueuePair> peer{};
};

class Session {
 public:
  explicit Session(std::span<const uint8_t> bytes) : in_(bytes) {
    GTEST_FLAG_SET(throw_on_failure, true);  // of the world's own checks
    for (int n = 0; n < 3; ++n) world_.add({.settings = {.max_qp = 64, .max_mr = 64, .parking_frames = 16}});
    hosts_.reserve(2);
    for (std::size_t n = 0; n < 2; ++n) hosts_.emplace_back(world_.device(n));
    Context context(must(client::make_in_process_context(world_.device(2))));
    auto pd = must(context.create_pd());
    auto region = must(pd.register_memory(pool_.memory().data(), pool_.memory().size(), Access::local_write));
    device_ = std::make_unique<Device>(Device{std::move(context), std::move(pd), std::move(region), QpInit{}.engine});
    for (std::size_t host = 0; host < 2; ++host) {
      for (const uint16_t id : {uint16_t{0}, uint16_t{1}, uint16_t{2}}) pairs_.push_back({.host = host, .id = id});
    }
    for (Pair& pair : pairs_) open(pair);
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 300; ++steps) {
      Pair& pair = pairs_[in_.below(static_cast<uint32_t>(pairs_.size()))];
      step(pair);
      for (Pair& one : pairs_) reopen(one);
      require(pool_.free() <= kBuffers, "a buffer came back twice");
    }
    end();
  }

 private:
  void open(Pair& pair) {
    const Queue::Terms terms{.queue_id = pair.id,
                             .entries = kEntries,
                             .portal = {.address = "192.0.2.1"},
                             .host = std::to_string(pair.host)};
    pair.queue = must(Queue::create(*device_, {target_, ring_, pool_, counters_}, terms, now_));
    test::Side& host = hosts_[pair.host];
    pair.peer = host.make_qp({.cap = {.max_send_wr = 64, .max_recv_wr = 64}});
    const QueuePair& peer = *pair.peer;
    QueuePair& mine = pair.queue->qp();
    const Gid mine_gid = device_->context.info().gids[0], host_gid = host.context.info().gids[0];
    // Short timeouts, for hosts that fall silent.
    must(mine.connect({host_gid, peer.qpn(), 1}, {.psn = 2, .timeout = 4, .retry_cnt = 3}));
    must(pair.peer->connect({mine_gid, mine.qpn(), 2}, {.psn = 1, .timeout = 4, .retry_cnt = 3, .rnr_retry = 1}));
    must(pair.queue->post_receives());
    for (int i = 0; i < 32; ++i) receive(pair);
  }

  void reopen(Pair& pair) {
    if (!pair.queue->closed()) return;
    world_.port(pair.host).frozen = false;  // the calls below need its engine
    pair.peer.reset();
    if (!pair.queue->finished()) return;
    pair.queue.reset();
    open(pair);
  }

  void receive(Pair& pair) {
    const Sge into = hosts_[pair.host].mr.sge(0, 64);
    (void)pair.peer->post_recv({.sges = {&into, 1}});
  }

  /// A descriptor for data in the capsule, in the host's memory, or in memory of the other host.
  void describe(const Pair& pair, nvme::Command& command, uint32_t length) {
    const auto kind = in_.take<uint8_t>();
    uint64_t address = (kind & 1) != 0 ? in_.below(64) : 0;
    uint32_t key = 0;
    command.flags = nvme::kPsdtSgl;
    command.sgl[15] = nvme::kSglOffset;
    if ((kind & 6) != 0) {
      test::Side& owner = hosts_[(kind & 0x78) == 0x78 ? 1 - pair.host : pair.host];
      address += reinterpret_cast<uint64_t>(owner.memory.data());
      key = owner.mr.rkey();
      command.sgl[15] = (kind & 0x80) != 0 ? nvme::kSglKeyedInvalidate : nvme::kSglKeyed;
    }
    std::memcpy(command.sgl.data(), &address, sizeof address);
    std::memcpy(command.sgl.data() + 8, &length, 3);
    if (key != 0) std::memcpy(command.sgl.data() + 11, &key, sizeof key);
  }

  void send(Pair& pair, std::size_t bytes) {
    test::Side& host = hosts_[pair.host];
    const std::size_t at = 32 << 10;  // apart from the data; later sends may overwrite earlier ones, which is allowed
    const Sge from = host.mr.sge(at, static_cast<uint32_t>(bytes));
    (void)pair.peer->post_send({.flags = SendFlag::signaled, .sges = {&from, 1}});
  }
  std::byte* capsule(const Pair& pair) { return hosts_[pair.host].memory.data() + (32 << 10); }

  void send_command(Pair& pair, nvme::Command command, uint32_t length) {
    command.command_id = in_.take<uint8_t>();
    describe(pair, command, length);
    std::memcpy(capsule(pair), &command, sizeof command);
    const std::size_t behind = command.sgl[15] == nvme::kSglOffset ? std::min(length + 64, kInCapsuleBytes) : 0;
    send(pair, sizeof command + behind);
  }

  void connect(Pair& pair) {
    nvme::ConnectData data{};
    data.host_id[0] = static_cast<uint8_t>(pair.host);
    data.controller_id = pair.id == 0 ? nvme::kDynamicController : in_.take<uint8_t>() % 8;
    std::strcpy(data.subsystem_nqn.data(), (in_.take<uint8_t>() & 7) == 0 ? nvme::kDiscoveryNqn : kNqn);
    std::strcpy(data.host_nqn.data(), kNqn);
    nvme::Command command{};
    command.opcode = nvme::kFabrics;
    command.flags = nvme::kPsdtSgl;
    command.nsid = nvme::kConnect;
    command.cdw10 = uint32_t{pair.id} << 16;
    command.cdw11 = kEntries - 1;
    command.cdw12 = (in_.take<uint8_t>() & 3) * 1000u;
    const uint32_t length = sizeof data;
    command.sgl[15] = nvme::kSglOffset;
    std::memcpy(command.sgl.data() + 8, &length, sizeof length);
    std::memcpy(capsule(pair), &command, sizeof command);
    std::memcpy(capsule(pair) + sizeof command, &data, sizeof data);
    send(pair, sizeof command + sizeof data);
  }

  void set_property(Pair& pair) {
    nvme::Command command{};
    command.opcode = nvme::kFabrics;
    command.nsid = nvme::kPropertySet;
    command.cdw11 = nvme::kCc;
    command.cdw12 = 0x460000u | (in_.take<uint8_t>() & 1 ? 1u : 0u);
    send_command(pair, command, 0);
  }

  void io(Pair& pair) {
    nvme::Command command{};
    command.opcode = kIoOpcodes[in_.below(kIoOpcodes.size())];
    command.nsid = 1;
    command.cdw10 = in_.below(kNamespaceBytes / 512 + 2);
    const uint32_t blocks = 1 + in_.below(24);
    command.cdw12 = blocks - 1;
    uint32_t length = blocks * 512;
    if (command.opcode == nvme::kDatasetManagement) {
      command.cdw10 = in_.below(8);
      command.cdw11 = nvme::kDeallocate;
      length = (command.cdw10 + 1) * 16;
      for (uint32_t i = 0; i <= command.cdw10; ++i) {
        const nvme::DatasetRange range{.attributes = 0, .blocks = in_.below(64), .first_block = in_.below(480)};
        for (std::byte* const to : {capsule(pair) + 64, hosts_[pair.host].memory.data()}) {
          std::memcpy(to + i * sizeof range, &range, sizeof range);
        }
      }
    }
    send_command(pair, command, length);
  }

  void admin(Pair& pair) {
    nvme::Command command{};
    command.opcode = kAdminOpcodes[in_.below(kAdminOpcodes.size())];
    command.nsid = 1;
    command.cdw10 = command.opcode == nvme::kAbort ? uint32_t{in_.take<uint8_t>()} << 16 : in_.take<uint8_t>();
    command.cdw11 = in_.take<uint8_t>();
    send_command(pair, command, static_cast<uint32_t>(std::min<uint64_t>(Controller::admin_data_bytes(command), 8192)));
  }

  void raw(Pair& pair) {
    const std::size_t bytes = in_.below(kCapsuleBytes + 2);
    in_.fill({capsule(pair), std::min<std::size_t>(bytes, 96)});
    send(pair, bytes);
  }

  void pass(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      now_ += 1us;
      world_.poll();
      for (Pair& one : pairs_) {
        (void)one.queue->poll(now_);
        std::array<Completion, 8> completions;
        (void)hosts_[one.host].cq.poll(completions);
      }
      ring_.poll();
    }
  }

  void step(Pair& pair) {
    if (!pair.peer) return pass(1);
    const bool is_admin = pair.id == 0;
    switch (in_.take<uint8_t>() % 16) {
      case 0: return connect(pair);
      case 1: return is_admin ? set_property(pair) : io(pair);
      case 2:
      case 3:
      case 4:
      case 5:
      case 6: return is_admin ? admin(pair) : io(pair);
      case 7: return raw(pair);
      case 8: world_.port(pair.host).frozen = !world_.port(pair.host).frozen; return;
      case 9: now_ += Nanos(1s) * in_.take<uint8_t>(); return check();
      case 10: pair.queue->close(); return;
      case 11:
        for (int i = 0; i < 8; ++i) receive(pair);
        return;
      default: return pass(1 + in_.below(300));
    }
  }

  void check() {
    for (Pair& one : pairs_) one.queue->check(now_);
  }

  void end() {
    for (std::size_t n = 0; n < 2; ++n) world_.port(n).frozen = false;
    for (Pair& one : pairs_) one.queue->close();
    require(ring_.drain(10s), "an operation does not end");
    for (Pair& one : pairs_) {
      require(one.queue->finished(), "a queue does not end");
      one.queue.reset();
    }
    require(pool_.free() == kBuffers, "a buffer is lost");
    require(target_.controllers() == 0, "a controller is left");
  }

  Input in_;
  test::World world_;
  std::vector<test::Side> hosts_;
  Target target_{disks()};
  IoRing ring_ = must(IoRing::open(8));
  BufferPool pool_ = must(BufferPool::make(kBuffers));
  QueueCounters counters_;
  std::unique_ptr<Device> device_;
  std::vector<Pair> pairs_;
  Nanos now_{1s};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, std::size_t size) {
  Session({bytes, size}).run();
  return 0;
}
