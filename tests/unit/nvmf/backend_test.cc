// Namespaces in memory, files and block devices, and the ring below them.
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

#include "must.h"
#include "nvmf/backend.h"
#include "nvmf/io_ring.h"

namespace uroce::nvmf {
namespace {

using namespace std::chrono_literals;

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

/// Submits `next` when the first operation has ended.
struct Chain : IoClient {
  void done(Io& io, int error) override {
    EXPECT_EQ(error, 0);
    ended.push_back(&io);
    if (ended.size() == 1) backend->submit(*next, *ring);
  }
  Backend* backend = nullptr;
  IoRing* ring = nullptr;
  Io* next = nullptr;
  std::vector<const Io*> ended{};
};

// A queue that asks for the next operation as soon as one has ended would else hold the others up.
TEST_F(BackendTest, OperationsThatWaitLongerGoFirst) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, 1 << 20);
  const auto file = must(open_file_backend(path_));
  IoRing one = must(IoRing::open(1));
  Chain chain;
  Io first{.client = &chain}, second = first, third = first;
  chain.backend = file.get();
  chain.ring = &one;
  chain.next = &third;
  file->submit(first, one);
  file->submit(second, one);
  while (chain.ended.size() < 3) one.poll();
  EXPECT_EQ(chain.ended, (std::vector<const Io*>{&first, &second, &third}));
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

// A read from an empty pipe does not end, like one from a disk that hangs.
TEST_F(BackendTest, DrainingEndsOperationsThatHang) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(pipe2(pipe.data(), O_CLOEXEC), 0);
  std::array<std::byte, 8> data{};
  // More than the ring holds.
  std::vector<Io> reads(12, Io{.op = Io::Op::read, .length = data.size(), .data = data.data(), .client = this});
  for (Io& one : reads) ring_.submit(one, pipe[0]);
  for (int i = 0; i < 100; ++i) ring_.poll();
  EXPECT_EQ(ring_.outstanding(), reads.size());
  EXPECT_TRUE(ring_.drain(20s));
  EXPECT_EQ(ring_.outstanding(), 0u);
  EXPECT_EQ(ended_.size(), reads.size());
  for (const auto& [io, error] : ended_) EXPECT_EQ(error, ECANCELED);
  for (const int end : pipe) close(end);
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

/// A file as a block device. None where the machine does not allow it.
class LoopDevice {
 public:
  explicit LoopDevice(const std::string& path) {
    const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
    close(control);
    if (number < 0) return;
    path_ = "/dev/loop" + std::to_string(number);
    fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    made_ = fd_ >= 0 && ioctl(fd_, LOOP_SET_FD, file) == 0;
    close(file);
  }
  ~LoopDevice() {
    if (made_) ioctl(fd_, LOOP_CLR_FD, 0);
    close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  explicit operator bool() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  bool made_ = false;
  std::string path_;
};

TEST_F(BackendTest, ABlockDeviceIsServedAlone) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, 1 << 20);
  const LoopDevice device(path_);
  if (!device) GTEST_SKIP() << "this machine allows no loop devices";
  const int mount = open(device.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);  // as mount(2) has it
  ASSERT_GE(mount, 0);
  const auto refused = open_file_backend(device.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_NE(refused.error().text.find("lsblk " + device.path()), std::string::npos) << refused.error().text;
  close(mount);
  for (int restart = 0; restart < 2; ++restart) {
    const auto backend = must(open_file_backend(device.path()));
    EXPECT_EQ(open_file_backend(device.path()).error().code, EBUSY) << "a second namespace";
    EXPECT_LT(open(device.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC), 0) << "a mount";
    check(*backend);
  }
}

}  // namespace
}  // namespace uroce::nvmf
