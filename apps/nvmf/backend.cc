#include "nvmf/backend.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "nvmf/io_ring.h"

namespace uroce::nvmf {

namespace {

constexpr uint32_t kFileBlock = 4096;

class MemoryBackend final : public Backend {
 public:
  MemoryBackend(std::byte* memory, uint64_t bytes) : Backend(bytes, 512), memory_(memory) {}
  ~MemoryBackend() override { munmap(memory_, bytes()); }

  void submit(Io& io, IoRing& ring) override {
    std::byte* const at = memory_ + io.offset;
    switch (io.op) {
      case Io::Op::read: std::memcpy(io.data, at, io.length); break;
      case Io::Op::write: std::memcpy(at, io.data, io.length); break;
      case Io::Op::write_zeroes:
      case Io::Op::deallocate: return clear(io, ring);
      case Io::Op::flush: break;
    }
    io.client->done(io, 0);
  }

 private:
  /// Gives whole pages back to the system, which costs it time: another thread of io_uring does it. They read as
  /// zeroes. An Io ends in the ring's turn in any case, so that many small ranges cannot hold the thread up.
  [[gnu::noinline]] void clear(Io& io, IoRing& ring) {
    const uint64_t end = io.offset + io.length;
    const uint64_t first = std::min((io.offset + page_ - 1) / page_ * page_, end);
    const uint64_t last = std::max(end / page_ * page_, first);
    std::memset(memory_ + io.offset, 0, first - io.offset);
    std::memset(memory_ + last, 0, end - last);
    io.pages = memory_ + first;
    io.pages_bytes = last - first;
    ring.submit(io, -1);
  }

  const uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::byte* memory_;
};

class FileBackend final : public Backend {
 public:
  FileBackend(int fd, uint64_t bytes, uint32_t block_bytes) : Backend(bytes, block_bytes), fd_(fd) {}
  ~FileBackend() override { close(fd_); }
  void submit(Io& io, IoRing& ring) override { ring.submit(io, fd_); }

 protected:
  uint64_t size_now() const override {
    const off_t end = lseek(fd_, 0, SEEK_END);
    return end < 0 ? 0 : static_cast<uint64_t>(end);
  }

 private:
  int fd_;
};

std::unexpected<Error> refuse(const std::string& path, int code, const std::string& why) {
  return fail(code, "namespace " + path + ": " + why);
}

std::string way_out(int code, const std::string& path) {
  if (code == EACCES) return "; let the user that runs this program write it (chown)";
  if (code != EBUSY) return "";
  return "; a mount, swap, LVM, RAID or another namespace has it or a part of it: let it go there (lsblk " + path +
         " tells where), or name another device";
}

}  // namespace

bool Backend::look_at_size() {
  const uint64_t before = bytes(), now = size_now();
  if (now < block_bytes_) return false;
  bytes_.store(now, std::memory_order_relaxed);
  return now / block_bytes_ != before / block_bytes_;
}

Result<std::unique_ptr<Backend>> make_memory_backend(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(errno, "a namespace of " + std::to_string(bytes) + " bytes of memory: " + std::strerror(errno));
  }
  return std::make_unique<MemoryBackend>(static_cast<std::byte*>(memory), bytes);
}

Result<std::unique_ptr<Backend>> open_file_backend(const std::string& path) {
  struct stat before{};
  // open(2): O_EXCL without O_CREAT is for block devices. The kernel then gives the device to nobody else: no mount, no
  // RAID, no second target.
  const bool device = stat(path.c_str(), &before) == 0 && S_ISBLK(before.st_mode);
  const int flags = O_RDWR | O_CLOEXEC | (device ? O_EXCL : 0);
  int fd = open(path.c_str(), flags | O_DIRECT);
  // Some file systems (tmpfs) have no O_DIRECT.
  if (fd < 0 && errno == EINVAL) fd = open(path.c_str(), flags);
  if (fd < 0) {
    const int code = errno;
    return refuse(path, code,
                  std::string("cannot open it for reading and writing: ") + std::strerror(code) + way_out(code, path));
  }
  struct stat status{};
  uint64_t bytes = 0;
  int block_bytes = kFileBlock;
  int error = fstat(fd, &status) == 0 ? 0 : errno;
  if (error == 0 && S_ISBLK(status.st_mode)) {
    if (ioctl(fd, BLKGETSIZE64, &bytes) != 0 || ioctl(fd, BLKSSZGET, &block_bytes) != 0) error = errno;
  } else if (error == 0 && S_ISREG(status.st_mode)) {
    bytes = static_cast<uint64_t>(status.st_size);
  } else if (error == 0) {
    error = EINVAL;
  }
  if (error == 0 && bytes >= static_cast<uint64_t>(block_bytes)) {
    return std::make_unique<FileBackend>(fd, bytes, static_cast<uint32_t>(block_bytes));
  }
  close(fd);
  if (error == EINVAL) return refuse(path, error, "it is neither a regular file nor a block device; name one of these");
  if (error != 0) return refuse(path, error, std::string("cannot find out its size: ") + std::strerror(error));
  return refuse(path, EINVAL,
                "it has " + std::to_string(bytes) + " bytes, and a namespace needs at least one block of " +
                    std::to_string(block_bytes) + "; make it larger (truncate -s)");
}

}  // namespace uroce::nvmf
