// The layers below the transport, each alone: capsules, I/O commands, controllers, buffers, backends.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "nvmf/backend.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/capsule.h"
#include "nvmf/config.h"
#include "nvmf/controller.h"
#include "nvmf/io_command.h"
#include "nvmf/io_ring.h"

namespace uroce::nvmf {
namespace {

using nvme::Status;
using namespace std::chrono_literals;

constexpr char kNqn[] = "nqn.2024-01.org.example:disks";

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

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

/// A backend, and what has ended on it.
class BackendTest : public testing::Test, public IoClient {
 protected:
  ~BackendTest() override { std::filesystem::remove(path_); }
  void done(Io& io, int error) override { ended_.emplace_back(&io, error); }
  int run(Backend& backend, Io io) {
    io.client = this;
    ended_.clear();
    backend.submit(io, ring_);
    while (ended_.empty()) ring_.poll();
    return ended_.front().second;
  }
  void check(Backend& backend) {
    std::vector<std::byte> storage(4 * 4096);
    void* at = storage.data();
    std::size_t room = storage.size();
    auto* const page = static_cast<std::byte*>(std::align(4096, 4096, at, room));
    const auto transfer = [&](Io::Op op, uint64_t offset, uint64_t length) {
      return run(
          backend,
          {.op = op, .force_unit_access = op == Io::Op::write, .offset = offset, .length = length, .data = page});
    };
    std::fill_n(page, 4096, std::byte{0x5a});
    EXPECT_EQ(transfer(Io::Op::write, 8192, 4096), 0);
    EXPECT_EQ(transfer(Io::Op::write, 12288, 4096), 0);
    EXPECT_EQ(transfer(Io::Op::flush, 0, 0), 0);
    EXPECT_EQ(transfer(Io::Op::read, 4096, 4096), 0);
    EXPECT_EQ(page[0], std::byte{0});
    EXPECT_EQ(transfer(Io::Op::read, 8192, 4096), 0);
    EXPECT_EQ(page[4095], std::byte{0x5a});
    EXPECT_EQ(transfer(Io::Op::write_zeroes, 8192, 4096), 0);
    EXPECT_EQ(transfer(Io::Op::read, 8192, 4096), 0);
    EXPECT_EQ(page[0], std::byte{0});
    EXPECT_EQ(transfer(Io::Op::read, 12288, 4096), 0);
    EXPECT_EQ(page[0], std::byte{0x5a});
    EXPECT_EQ(transfer(Io::Op::deallocate, 12288, 4096), 0);
    EXPECT_EQ(backend.bytes(), 1u << 20);
  }

  const std::string path_ = testing::TempDir() + "uroce-nvmf-disk-" + std::to_string(getpid());
  IoRing ring_ = must(IoRing::open(4));
  std::vector<std::pair<Io*, int>> ended_;
};

TEST_F(BackendTest, Memory) { check(*must(make_memory_backend(1 << 20))); }

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * 4096;
}

TEST_F(BackendTest, MemoryIsClearedWithoutTakingIt) {
  constexpr uint64_t kBytes = 256 << 20;
  const auto backend = must(make_memory_backend(kBytes));
  const uint64_t before = resident_bytes();
  std::vector<std::byte> data(1 << 20, std::byte{0x5a});
  for (uint64_t at = 0; at < kBytes / 2; at += data.size()) {
    ASSERT_EQ(run(*backend, {.op = Io::Op::write, .offset = at, .length = data.size(), .data = data.data()}), 0);
  }
  EXPECT_GT(resident_bytes(), before + kBytes / 3);
  for (const Io::Op op : {Io::Op::write_zeroes, Io::Op::deallocate}) {
    EXPECT_EQ(run(*backend, {.op = op, .offset = 512, .length = kBytes - 1024}), 0);
    EXPECT_LT(resident_bytes(), before + kBytes / 8);
  }
  for (const uint64_t at : {uint64_t{0}, kBytes / 2 - data.size()}) {
    ASSERT_EQ(run(*backend, {.op = Io::Op::read, .offset = at, .length = data.size(), .data = data.data()}), 0);
    const auto kept = std::ranges::count(data, std::byte{0x5a});
    EXPECT_EQ(kept, at == 0 ? 512 : 0);
  }
}

TEST_F(BackendTest, MemoryClearsAnyRange) {
  constexpr uint64_t kBytes = 64 << 10, kSector = 512;
  const auto backend = must(make_memory_backend(kBytes));
  const std::vector<std::byte> full(kBytes, std::byte{1});
  std::vector<std::byte> data;
  for (const uint64_t first : {0, 1, 7, 8, 9, 15, 16}) {
    for (const uint64_t count : {1, 7, 8, 9, 16, 17, 40}) {
      data = full;
      ASSERT_EQ(run(*backend, {.op = Io::Op::write, .length = kBytes, .data = data.data()}), 0);
      Io io{.op = Io::Op::deallocate, .offset = first * kSector, .length = count * kSector, .client = this};
      ended_.clear();
      backend->submit(io, ring_);
      EXPECT_TRUE(ended_.empty()) << "in the ring's turn, so that many ranges cannot hold the thread up";
      while (ended_.empty()) ring_.poll();
      ASSERT_EQ(run(*backend, {.op = Io::Op::read, .length = kBytes, .data = data.data()}), 0);
      for (uint64_t at = 0; at < kBytes; ++at) {
        const bool inside = at >= io.offset && at < io.offset + io.length;
        ASSERT_EQ(data[at], inside ? std::byte{0} : std::byte{1}) << first << " " << count << " " << at;
      }
    }
  }
}

TEST_F(BackendTest, File) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, 1 << 20);
  const auto backend = must(open_file_backend(path_));
  EXPECT_EQ(backend->block_bytes(), 4096u);
  check(*backend);
}

TEST_F(BackendTest, MoreOperationsThanTheRingHolds) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, 1 << 20);
  const auto backend = must(open_file_backend(path_));
  std::vector<Io> flushes(50, Io{.op = Io::Op::flush, .client = this});
  for (Io& one : flushes) backend->submit(one, ring_);
  while (ended_.size() < flushes.size()) ring_.poll();
  EXPECT_EQ(ring_.outstanding(), 0u);
}

TEST_F(BackendTest, AFileThatBecameShorterIsAnError) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, 1 << 20);
  const auto backend = must(open_file_backend(path_));
  std::filesystem::resize_file(path_, 0);
  std::vector<std::byte> storage(8192);
  auto* const page = storage.data() + (4096 - reinterpret_cast<uintptr_t>(storage.data()) % 4096);
  EXPECT_EQ(run(*backend, {.op = Io::Op::read, .length = 4096, .data = page}), EIO);
}

TEST_F(BackendTest, SaysWhatCannotBeANamespace) {
  EXPECT_EQ(open_file_backend("/dev/null").error().code, EINVAL);
  EXPECT_EQ(open_file_backend(path_).error().code, ENOENT);
  std::ofstream(path_).close();
  EXPECT_NE(open_file_backend(path_).error().text.find("has 0 bytes"), std::string::npos);
}

TEST_F(BackendTest, TheFileNamesItsFaults) {
  const auto fault = [&](const std::string& text) {
    std::ofstream(path_) << text;
    const auto read = read_config(path_);
    return read ? std::string("none") : read.error().text.substr(path_.size());
  };
  EXPECT_EQ(fault("[[subsystem]]\nnqn = \"nqn.2024-01.org.example:a\"\nnamespaces = [\"memory:1M\"]\n"), "none");
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"a\"\n").find("does not begin with nqn."), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nname = \"a\"\n").find(":2: unknown key name"), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"nqn.a\"\nhosts = []\n").find("hosts is empty"), std::string::npos);
  EXPECT_NE(fault("[[subsystem]]\nnqn = \"nqn.a\"\nnamespaces = [\"memory:x\"]\n").find("memory:1G"),
            std::string::npos);
  EXPECT_NE(fault("subsystem = 1\n").find("[[subsystem]]"), std::string::npos);
  EXPECT_NE(fault("interface = 1\n").find(":1: interface names nothing"), std::string::npos);
  EXPECT_NE(fault("interface = \"d0\"\nlcores = 1\n").find(":2: lcores is no text"), std::string::npos);
  EXPECT_NE(fault("lcores = \"0;1\"\n").find(":1: lcores = '0;1': it may contain only"), std::string::npos);
  EXPECT_NE(fault("cores = \"1\"\n").find(":1: unknown key cores; the file has interface, lcores"), std::string::npos);
}

TEST_F(BackendTest, TheFileNamesThePort) {
  std::ofstream(path_) << "interface = \"eth0\"\n";
  const Config named = must(read_config(path_));
  EXPECT_EQ(named.interface, "eth0");
  EXPECT_EQ(named.lcores, "");
  EXPECT_TRUE(named.subsystems.empty());
  std::ofstream(path_) << "";
  EXPECT_EQ(must(read_config(path_)).interface, "");
}

TEST_F(BackendTest, TheSampleOfTheFileHoldsWithItsLinesCommentedIn) {
  std::ifstream sample(UROCE_NVMF_SAMPLE);
  std::string used;
  for (std::string line; std::getline(sample, line);) {
    if (line.starts_with('#') && !line.starts_with("# ")) used += line.substr(1) + "\n";
  }
  EXPECT_TRUE(must(read_config(UROCE_NVMF_SAMPLE)).subsystems.empty());
  std::ofstream(path_) << used;
  const Config config = must(read_config(path_));
  EXPECT_EQ(config.interface, "eth0");
  EXPECT_EQ(config.lcores, "1-2");
  ASSERT_EQ(config.subsystems.size(), 1u);
  EXPECT_EQ(config.subsystems[0].namespaces.size(), 1u);
  EXPECT_EQ(config.subsystems[0].hosts.size(), 1u);
}

}  // namespace
}  // namespace uroce::nvmf
