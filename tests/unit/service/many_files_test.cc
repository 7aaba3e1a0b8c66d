// Memory in more files than a message carries and than the program may have open, through the client's library.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
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

constexpr std::size_t kBytesOfAFile = 4096;

/// Files of a page each, mapped next to each other. They have names, and are not open.
class Files {
 public:
  explicit Files(std::size_t count) : bytes_(count * kBytesOfAFile) {
    void* const at = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    at_ = static_cast<std::byte*>(at);
    std::filesystem::create_directory(folder_);
    for (std::size_t i = 0; i < count; ++i) {
      const int fd = open((folder_ + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      EXPECT_EQ(ftruncate(fd, kBytesOfAFile), 0);
      EXPECT_NE(mmap(at_ + i * kBytesOfAFile, kBytesOfAFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                MAP_FAILED);
      close(fd);
    }
    for (std::size_t i = 0; i < bytes_; i += 8) at_[i] = static_cast<std::byte>(i / 8 + i / kBytesOfAFile);
  }
  ~Files() {
    munmap(at_, bytes_);
    std::filesystem::remove_all(folder_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::byte* at() const { return at_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::string folder_ = "/dev/shm/uroce-files-" + std::to_string(getpid()) + "/";
  std::size_t bytes_;
  std::byte* at_ = nullptr;
};

/// This process may have `more` descriptors beside those that are open.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    const rlimit few{.rlim_cur = static_cast<rlim_t>(next) + more, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

class ManyFiles : public testing::Test {
 protected:
  ManyFiles() {
    world_.add();
    world_.add();
    server_ = must(
        Server::start({.socket = socket_}, {world_.device(0), world_.device(1)}, [](Severity, std::string_view) {}));
  }
  ~ManyFiles() override {
    server_.reset();
    world_.stop();
    std::filesystem::remove_all(folder_);
  }
  Context open(std::size_t n) {
    return must(
        open_daemon_device(world_.device(n)->config().name, {folder_ + std::string(++programs_, '/') + "socket"}));
  }

  const std::string folder_ = testing::TempDir() + "uroce-files-" + std::to_string(getpid());
  const std::string socket_ = folder_ + "/socket";
  World world_{World::Mode::threaded};
  std::unique_ptr<Server> server_;
  std::size_t programs_ = 1;
};

/// Reads all of `region` into the memory of `reader`, a part at a time.
void expect_read(World& world, Side& reader, QueuePair& qp, const MemoryRegion& region, const Files& files) {
  for (std::size_t done = 0; done < files.bytes(); done += Side::kBytes) {
    const auto part = static_cast<uint32_t>(std::min(Side::kBytes, files.bytes() - done));
    const Sge into = reader.mr.sge(0, part);
    ASSERT_EQ(qp.post_send({.opcode = WrOpcode::rdma_read,
                            .flags = SendFlag::signaled,
                            .sges = {&into, 1},
                            .remote_addr = reinterpret_cast<uint64_t>(files.at()) + done,
                            .rkey = region.rkey()}),
              0);
    ASSERT_EQ(next(world, reader.cq).status, WcStatus::success);
    ASSERT_TRUE(std::equal(files.at() + done, files.at() + done + part, reader.memory.begin())) << done;
  }
}

TEST_F(ManyFiles, AreRegisteredInOneCall) {
  Side a(open(0)), b(open(1));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  const Files files(700), few(70);
  auto region = must([&] {
    const FewDescriptors limit(160);  // of both sides of the socket
    return b.pd.register_memory(files.at(), files.bytes(), Side::kAll);
  }());
  expect_read(world_, a, qa, region, files);
  must(region.reregister(nullptr, few.at(), few.bytes(), nullptr));
  expect_read(world_, a, qa, region, few);
}

TEST_F(ManyFiles, AreRegisteredByThreadsAtOnce) {
  constexpr std::size_t kThreads = 3;
  Side a(open(0)), b(open(1));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  const Files files(kThreads * 150);
  const std::size_t bytes = files.bytes() / kThreads;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        EXPECT_TRUE(b.pd.register_memory(files.at() + i * bytes, bytes, Side::kAll).has_value());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  expect_read(world_, a, qa, must(b.pd.register_memory(files.at(), files.bytes(), Side::kAll)), files);
}

TEST_F(ManyFiles, OfWhichOneIsRefused) {
  const std::string on_disk = testing::TempDir() + "uroce-one-of-many";
  const message::Fd file(::open(on_disk.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), kBytesOfAFile), 0);
  std::filesystem::remove(on_disk);
  struct statfs system{};
  if (fstatfs(file.get(), &system) == 0 && system.f_type == TMPFS_MAGIC) GTEST_SKIP() << on_disk << " is in memory";
  Side b(open(1));
  const Files files(200);
  constexpr std::size_t kGood = 150 * kBytesOfAFile;
  ASSERT_NE(mmap(files.at() + kGood, kBytesOfAFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0),
            MAP_FAILED);
  const auto pieces = [this] {
    const auto users = server_->users();
    return std::ranges::find(users.at(0).budgets, "mappings", &message::Budget::resource)->used;
  };
  const uint64_t before = pieces();
  test::expect_error(b.pd.register_memory(files.at(), files.bytes(), Side::kAll), EOPNOTSUPP, "limits.file_memory");
  EXPECT_EQ(pieces(), before);
  EXPECT_TRUE(b.pd.register_memory(files.at(), kGood, Side::kAll).has_value());
}

}  // namespace
}  // namespace uroce::service
